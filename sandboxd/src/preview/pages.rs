//! What a visitor sees where there is no preview.
//!
//! Nothing on these pages comes from a request or a sandbox but a port's number.

use agent_protocol::MAX_INWARD_TUNNELS;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use http::{Response, StatusCode, header};

use super::body::{self, PreviewBody};
use crate::model::preview::LinkEnd;

/// Why a visitor does not get what the server in the sandbox says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The request is none that a preview could answer.
    Malformed(&'static str),
    /// Not everybody would read the request in one way.
    Shape(&'static str),
    /// No link says so. Nothing tells a wrong token from one that never was.
    Unknown,
    /// Too many wrong tokens from the visitor's address; how many seconds to wait.
    TooManyGuesses(u64),
    /// A page of another site made the request.
    Foreign,
    /// The link leads nowhere any more.
    Ended(LinkEnd),
    /// The sandbox does not offer the port any more.
    NotOffered,
    /// Nothing listens on the port.
    NothingListens(u16),
    /// The sandbox cannot be had just now.
    NotReady,
    /// As many connections as there may be lead to its ports already.
    Crowded,
    /// The server broke off, or does not speak HTTP.
    BrokeOff,
    /// The server does not begin to answer.
    NoAnswer,
}

impl Trouble {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed(_) | Self::Shape(_) => StatusCode::BAD_REQUEST,
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::TooManyGuesses(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Foreign => StatusCode::FORBIDDEN,
            Self::Ended(_) | Self::NotOffered => StatusCode::GONE,
            Self::NothingListens(_) | Self::NotReady | Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::BrokeOff => StatusCode::BAD_GATEWAY,
            Self::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::Shape(_) => "This request cannot be passed on",
            Self::Unknown => "There is no such preview",
            Self::TooManyGuesses(_) => "Too many wrong links",
            Self::Foreign => "This preview is not for other sites",
            Self::Ended(LinkEnd::Expired) => "This link has expired",
            Self::Ended(LinkEnd::Revoked) => "This link was taken back",
            Self::Ended(LinkEnd::SandboxGone) => "This sandbox is gone",
            Self::NotOffered => "This port is not offered any more",
            Self::NothingListens(_) => "Nothing listens here yet",
            Self::NotReady => "The sandbox is not ready",
            Self::Crowded => "Too many connections to this sandbox",
            Self::BrokeOff => "The server in the sandbox broke off",
            Self::NoAnswer => "The server in the sandbox does not answer",
        }
    }

    fn advice(self) -> String {
        match self {
            Self::Malformed(problem) => problem.into(),
            Self::Shape(problem) => format!("The request cannot be read in one way: {problem}."),
            Self::Unknown => "The link may be incomplete. Ask for it again in the chat.".into(),
            Self::TooManyGuesses(seconds) => format!("Try again in {seconds} seconds."),
            Self::Foreign => "Open the link itself, in a tab of its own.".into(),
            Self::Ended(_) | Self::NotOffered => "Ask for a new one in the chat.".into(),
            Self::NothingListens(port) => {
                format!("As soon as a server in the sandbox listens on port {port}, it shows here by itself.")
            }
            Self::NotReady => "It cannot be started just now. This page tries again by itself.".into(),
            Self::Crowded => format!(
                "It has {MAX_INWARD_TUNNELS} at once, and all are in use. This page tries again by itself."
            ),
            Self::BrokeOff => "It ended the connection in its answer, or does not speak HTTP.".into(),
            Self::NoAnswer => "It took the request and said nothing.".into(),
        }
    }

    /// Whether it may be over in a moment.
    fn passes(self) -> bool {
        matches!(self, Self::NothingListens(_) | Self::NotReady | Self::Crowded)
    }
}

/// The answer: a page for a browser, and a line of text for anything else.
pub(super) fn answer(trouble: Trouble, request: &HeaderMap) -> Response<PreviewBody> {
    let wants_page = request
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.as_bytes().windows(9).any(|part| part.eq_ignore_ascii_case(b"text/html")));
    let (kind, text) = if wants_page {
        ("text/html; charset=utf-8", page(trouble))
    } else {
        ("text/plain; charset=utf-8", format!("{}. {}\n", trouble.title(), trouble.advice()))
    };
    let mut response = Response::new(body::text(text));
    *response.status_mut() = trouble.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    match trouble {
        Trouble::TooManyGuesses(seconds) => drop(headers.insert(RETRY_AFTER, seconds.into())),
        _ if trouble.passes() => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
        _ => {}
    }
    response
}

fn page(trouble: Trouble) -> String {
    let (title, advice) = (trouble.title(), trouble.advice());
    let retry = if trouble.passes() { RETRY } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style><main><h1>{title}</h1><p>{advice}</p></main>{retry}</html>\n"
    )
}

const STYLE: &str = ":root{color-scheme:light dark}body{margin:0;min-height:100vh;display:grid;place-items:center;\
    font:16px/1.5 system-ui,sans-serif}main{max-width:32rem;padding:2rem}h1{font-size:1.4rem;margin:0 0 .5rem}p{margin:0}";

/// Half a second at first, doubled up to eight. How often is kept for the tab, under a name that is no page's own, and
/// forgotten when it was long ago: something else showed meanwhile. Where a page may keep nothing, as in a frame that is
/// walled in, each wait is the first.
const RETRY: &str = "<script>\
    let tries=0;try{const name='sandboxd-preview-tries',now=Date.now(),\
    [before,when]=JSON.parse(sessionStorage.getItem(name))||[];tries=now-when<20000?before:0;\
    sessionStorage.setItem(name,JSON.stringify([tries+1,now]))}catch{}\
    setTimeout(()=>location.reload(),Math.min(500*2**tries,8000))</script>\
    <noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>";

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn asked(accept: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))])
    }

    #[tokio::test]
    async fn a_browser_gets_a_page_that_tries_again_and_others_a_line() {
        let page = answer(Trouble::NothingListens(3000), &asked("text/html,*/*"));
        assert_eq!(page.status(), 503);
        assert_eq!(page.headers()[RETRY_AFTER], "1");
        let text = page.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("port 3000") && text.contains("location.reload"), "{text}");
        let full = answer(Trouble::Crowded, &asked("*/*"));
        assert_eq!(
            (full.status().as_u16(), &full.headers()[RETRY_AFTER]),
            (503, &HeaderValue::from_static("1"))
        );
        let text = full.into_body().collect().await.unwrap().to_bytes();
        assert!(text.starts_with(b"Too many connections to this sandbox. It has 384 at once"), "{text:?}");
        let line = answer(Trouble::Unknown, &asked("*/*"));
        assert_eq!(line.status(), 404);
        let text = line.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            text,
            "There is no such preview. The link may be incomplete. Ask for it again in the chat.\n"
        );
    }
}
