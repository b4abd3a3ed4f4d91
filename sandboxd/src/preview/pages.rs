//! Error pages for visitors.
//!
//! Except for a port number, nothing on these pages comes from a request or a sandbox.

use agent_protocol::MAX_INBOUND_TUNNELS;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    RETRY_AFTER,
};
use http::{Response, StatusCode, header};

use super::body::{self, PreviewBody};
use crate::model::limits::MAX_DOWNLOADS;
use crate::model::preview::LinkEnd;

/// Why a visitor does not get the server's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreviewError {
    /// No preview could handle the request.
    Malformed(&'static str),
    /// Servers could read the request in different ways.
    Ambiguous(&'static str),
    /// No link matches. A wrong token and one that never existed give the same response.
    Unknown,
    /// Too many wrong tokens from the visitor's address. Seconds to wait.
    TooManyGuesses(u64),
    /// A page of another site made the request.
    CrossSite,
    /// The link has ended.
    Ended(LinkEnd),
    /// The sandbox no longer exposes the port.
    PortNotExposed,
    /// No server listens on the port.
    NothingListens(u16),
    /// The sandbox is not available now.
    NotReady,
    /// The sandbox has reached its maximum number of connections.
    TooManyConnections,
    /// The server closed the connection, or does not speak HTTP.
    ConnectionBroke,
    /// The server did not begin to respond in time.
    NoAnswer,
    /// A download link with another method than GET and HEAD.
    NotReadOnly,
    /// The file of a download link cannot be opened.
    NoFile,
    /// The file of a download link does not meet the conditions of the request.
    Changed,
    /// The file of a download link has no byte in the requested range. Its size in bytes.
    NoRange(u64),
    /// The sandbox has reached its maximum number of downloads.
    TooManyDownloads,
    /// The audit record cannot be written.
    Unrecorded,
}

impl PreviewError {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed(_) | Self::Ambiguous(_) => StatusCode::BAD_REQUEST,
            Self::Unknown | Self::NoFile => StatusCode::NOT_FOUND,
            Self::NotReadOnly => StatusCode::METHOD_NOT_ALLOWED,
            Self::Changed => StatusCode::PRECONDITION_FAILED,
            Self::NoRange(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::TooManyGuesses(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::CrossSite => StatusCode::FORBIDDEN,
            Self::Ended(_) | Self::PortNotExposed => StatusCode::GONE,
            Self::NothingListens(_)
            | Self::NotReady
            | Self::TooManyConnections
            | Self::TooManyDownloads
            | Self::Unrecorded => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectionBroke => StatusCode::BAD_GATEWAY,
            Self::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::Ambiguous(_) => "This request is not supported",
            Self::Unknown => "No such link",
            Self::TooManyGuesses(_) => "Too many wrong links",
            Self::CrossSite => "This preview is not for other sites",
            Self::Ended(LinkEnd::Expired) => "This link has expired",
            Self::Ended(LinkEnd::Revoked) => "This link was revoked",
            Self::Ended(LinkEnd::SandboxGone) => "This sandbox is gone",
            Self::PortNotExposed => "This port is no longer available",
            Self::NothingListens(_) => "Nothing listens here yet",
            Self::NotReady => "The sandbox is not ready",
            Self::TooManyConnections => "Too many connections to this sandbox",
            Self::ConnectionBroke => "The server in the sandbox closed the connection",
            Self::NoAnswer => "The server in the sandbox does not answer",
            Self::NotReadOnly => "This link only downloads a file",
            Self::NoFile => "This file is not available",
            Self::Changed => "This file has changed",
            Self::NoRange(_) => "This file does not have that range",
            Self::TooManyDownloads => "Too many downloads from this sandbox",
            Self::Unrecorded => "Links cannot be opened now",
        }
    }

    fn advice(self) -> String {
        match self {
            Self::Malformed(problem) => problem.into(),
            Self::Ambiguous(problem) => format!("The request is ambiguous: {problem}."),
            Self::Unknown => "It may be incomplete. Ask for it again in the chat.".into(),
            Self::TooManyGuesses(seconds) => format!("Try again in {seconds} seconds."),
            Self::CrossSite => "Open the link itself, in a tab of its own.".into(),
            Self::Ended(_) | Self::PortNotExposed => "Ask for a new one in the chat.".into(),
            Self::NothingListens(port) => {
                format!("This page reloads until a server in the sandbox listens on port {port}.")
            }
            Self::NotReady => "It cannot be started now. This page reloads until it is.".into(),
            Self::TooManyConnections => format!(
                "All of its {MAX_INBOUND_TUNNELS} connections are in use. This page reloads until one is free."
            ),
            Self::ConnectionBroke => {
                "It closed the connection without a complete response, or it does not speak HTTP.".into()
            }
            Self::NoAnswer => "It received the request and did not respond in time.".into(),
            Self::NotReadOnly => "Use GET or HEAD.".into(),
            Self::NoFile => {
                "It was moved, deleted or replaced by something else. Ask for it again in the chat.".into()
            }
            Self::Changed => "Download it again from its beginning.".into(),
            Self::NoRange(bytes) => format!("It has {bytes} bytes."),
            Self::TooManyDownloads => {
                format!(
                    "All of its {MAX_DOWNLOADS} downloads are in use. This page reloads until one is free."
                )
            }
            Self::Unrecorded => {
                "The daemon's audit record cannot be written. This page reloads until it can.".into()
            }
        }
    }

    /// Whether a retry may succeed soon.
    fn is_temporary(self) -> bool {
        matches!(
            self,
            Self::NothingListens(_)
                | Self::NotReady
                | Self::TooManyConnections
                | Self::TooManyDownloads
                | Self::Unrecorded
        )
    }
}

/// Builds the response: a page for a browser, and a line of text for other clients.
pub(super) fn answer(error: PreviewError, request: &HeaderMap) -> Response<PreviewBody> {
    let wants_page = request
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.as_bytes().windows(9).any(|part| part.eq_ignore_ascii_case(b"text/html")));
    let (kind, text) = if wants_page {
        ("text/html; charset=utf-8", page(error))
    } else {
        ("text/plain; charset=utf-8", format!("{}. {}\n", error.title(), error.advice()))
    };
    let mut response = Response::new(body::text(text));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    match error {
        PreviewError::NotReadOnly => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
        PreviewError::NoRange(bytes) => {
            let range = HeaderValue::try_from(format!("bytes */{bytes}")).ok();
            headers.extend(range.map(|range| (CONTENT_RANGE, range)));
        }
        PreviewError::TooManyGuesses(seconds) => drop(headers.insert(RETRY_AFTER, seconds.into())),
        _ if error.is_temporary() => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
        _ => {}
    }
    response
}

fn page(error: PreviewError) -> String {
    let (title, advice) = (error.title(), error.advice());
    let retry = if error.is_temporary() { RETRY } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style><main><h1>{title}</h1><p>{advice}</p></main>{retry}</html>\n"
    )
}

const STYLE: &str = ":root{color-scheme:light dark}body{margin:0;min-height:100vh;display:grid;place-items:center;\
    font:16px/1.5 system-ui,sans-serif}main{max-width:32rem;padding:2rem}h1{font-size:1.4rem;margin:0 0 .5rem}p{margin:0}";

/// Script that reloads the page: after half a second at first, doubled up to eight seconds. The number of tries is
/// stored for the tab under a name that no other page uses. It expires after 20 seconds, because another page was shown
/// in between. If the page may not store data, as in a sandboxed frame, each wait is the first.
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
    async fn a_browser_gets_a_page_that_reloads_and_other_clients_a_line() {
        let page = answer(PreviewError::NothingListens(3000), &asked("text/html,*/*"));
        assert_eq!(page.status(), 503);
        assert_eq!(page.headers()[RETRY_AFTER], "1");
        let text = page.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("port 3000") && text.contains("location.reload"), "{text}");
        let full = answer(PreviewError::TooManyConnections, &asked("*/*"));
        assert_eq!(
            (full.status().as_u16(), &full.headers()[RETRY_AFTER]),
            (503, &HeaderValue::from_static("1"))
        );
        let text = full.into_body().collect().await.unwrap().to_bytes();
        assert!(
            text.starts_with(b"Too many connections to this sandbox. All of its 384 connections"),
            "{text:?}"
        );
        let line = answer(PreviewError::Unknown, &asked("*/*"));
        assert_eq!(line.status(), 404);
        let text = line.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "No such link. It may be incomplete. Ask for it again in the chat.\n");
    }
}
