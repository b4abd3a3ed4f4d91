//! One request of a visitor: which preview, may it, and what its server says.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::client::legacy;
use sandbox_api::port::LinkStyle;
use subtle::ConstantTimeEq;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::debug;

use super::cookies::{self, Jar};
use super::door::Entrance;
use super::headers::{Seen, is_upgrade};
use super::pages::{self, Trouble};
use super::upstream::{self, Upstream};
use super::{address, upgrade};
use crate::listen::throttle::Throttle;
use crate::model::limits;
use crate::model::preview::PreviewToken;
use crate::service::{self, Link, PreviewUse, Service};

/// What a visitor is sent.
pub(super) type PreviewBody = UnsyncBoxBody<Bytes, BrokenOff>;

/// The parameter that a link with a port of its own carries its token in.
pub(crate) const KEY_PARAMETER: &str = "preview-key";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    /// The server, or the way to it.
    #[error("the server broke off")]
    Server(#[source] hyper::Error),
    /// The link leads nowhere any more.
    #[error("the link is over")]
    Over,
}

/// Passes requests on.
pub(super) struct Gateway {
    service: Arc<Service>,
    upstream: Upstream,
    guesses: Throttle,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

/// A visitor at the right door.
struct Admitted {
    link: Arc<Link>,
    seen: Seen,
    /// Where the preview shares its host name with others.
    jar: Option<Jar>,
}

/// What becomes of a visitor.
enum Admission {
    Admitted(Admitted),
    /// Asked to come again, with a cookie instead of the token.
    Answered(Response<PreviewBody>),
}

impl Gateway {
    pub(super) fn new(service: Arc<Service>) -> Self {
        let upstream = upstream::upstream(Arc::clone(&service));
        Self { service, upstream, guesses: Throttle::new() }
    }

    /// Answers a request, whatever it is.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        entrance: &Entrance,
        visitor: IpAddr,
        stopping: CancellationToken,
    ) -> Response<PreviewBody> {
        let headers = request.headers().clone();
        let answered = match self.admit(&request, entrance, visitor) {
            Ok(Admission::Admitted(admitted)) => self.pass_on(request, admitted, stopping).await,
            Ok(Admission::Answered(response)) => Ok(response),
            Err(trouble) => Err(trouble),
        };
        answered.unwrap_or_else(|trouble| pages::answer(trouble, &headers))
    }

    fn admit(
        &self,
        request: &Request<Incoming>,
        entrance: &Entrance,
        visitor: IpAddr,
    ) -> Result<Admission, Trouble> {
        if request.method() == Method::CONNECT || request.uri().authority().is_some() {
            return Err(Trouble::Malformed("This is no proxy."));
        }
        let host = host(request.headers())?;
        let admitted = match entrance {
            Entrance::ByName => self.by_name(host, visitor)?,
            Entrance::Own(link) => {
                let seen = self.seen(host, visitor, link);
                if let Some(answer) = follow_link(request, link, &seen) {
                    return Ok(Admission::Answered(answer));
                }
                self.by_cookie(request.headers(), link, seen)?
            }
        };
        match admitted.link.end() {
            Some(end) => Err(Trouble::Ended(end)),
            None => Ok(Admission::Admitted(admitted)),
        }
    }

    fn by_name(&self, host: &str, visitor: IpAddr) -> Result<Admitted, Trouble> {
        let named = address::named(host, &self.service.preview_settings().domain);
        let link = named.and_then(|named| {
            let link = self.service.link_of_token(&named.token)?;
            (link.record().port == named.port && link.record().style == LinkStyle::Host).then_some(link)
        });
        let link = link.ok_or_else(|| self.guessed(visitor))?;
        let seen = self.seen(host, visitor, &link);
        Ok(Admitted { link, seen, jar: None })
    }

    fn by_cookie(&self, headers: &HeaderMap, link: &Arc<Link>, seen: Seen) -> Result<Admitted, Trouble> {
        let jar = Jar::of(&link.record().id);
        if !jar.tokens(headers).iter().any(|token| is_same(token, link.token())) {
            return Err(self.guessed(seen.visitor));
        }
        // The browser brings the cookie along whoever asks, so it must be the preview's own page, or a person.
        if is_foreign(headers, &seen.origin()) {
            return Err(Trouble::Foreign);
        }
        Ok(Admitted { link: Arc::clone(link), seen, jar: Some(jar) })
    }

    fn guessed(&self, visitor: IpAddr) -> Trouble {
        match self.guesses.failed(visitor) {
            Ok(()) => Trouble::Unknown,
            Err(wait) => Trouble::TooManyGuesses(wait.as_secs() + 1),
        }
    }

    fn seen(&self, host: &str, visitor: IpAddr, link: &Link) -> Seen {
        let settings = self.service.preview_settings();
        let is_https = match link.record().style {
            LinkStyle::Host => settings.front.is_some_and(|front| front.is_https),
            LinkStyle::Port => settings.is_https,
        };
        Seen { host: host.to_owned(), is_https, visitor, port: link.record().port }
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
        Admitted { link, seen, jar }: Admitted,
        stopping: CancellationToken,
    ) -> Result<Response<PreviewBody>, Trouble> {
        let used = self.service.use_preview(&link).await.map_err(|error| trouble_of(&error, seen.port))?;
        let visitor = is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = upstream::uri(&link.record().sandbox, seen.port, path)
            .map_err(|_| Trouble::Malformed("Its path cannot be passed on."))?;
        *request.version_mut() = Version::HTTP_11;
        if let Some(jar) = &jar {
            jar.let_in(request.headers_mut());
        }
        seen.to_sandbox(request.headers_mut());
        let answered = timeout(limits::PREVIEW_ANSWER, self.upstream.request(request));
        let mut response = tokio::select! {
            answered = answered => answered.map_err(|_| Trouble::NoAnswer)?.map_err(|error| refused(&error, seen.port))?,
            () = link.over() => return Err(link.end().map_or(Trouble::BrokeOff, Trouble::Ended)),
        };
        cookies::untie(response.headers_mut());
        if let Some(jar) = &jar {
            jar.let_out(response.headers_mut());
        }
        seen.to_visitor(response.headers_mut());
        match visitor {
            Some(visitor) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let server = hyper::upgrade::on(&mut response);
                tokio::spawn(upgrade::carry(visitor, server, Arc::clone(&link), used.into_trace(), stopping));
                Ok(response.map(|_| empty()))
            }
            // Nobody asked for it.
            _ if response.status() == StatusCode::SWITCHING_PROTOCOLS => Err(Trouble::BrokeOff),
            _ => Ok(response
                .map(|body| Watched { body, over: Box::pin(link.over()), _used: used }.boxed_unsync())),
        }
    }
}

/// The one name that the visitor knows the preview by.
fn host(headers: &HeaderMap) -> Result<&str, Trouble> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err(Trouble::Malformed("It must have one Host header.")),
    }
}

/// Whoever comes with the link's token is given it as a cookie, and sent to the same page without it: an address is
/// copied, logged and told to other sites.
fn follow_link(request: &Request<Incoming>, link: &Link, seen: &Seen) -> Option<Response<PreviewBody>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) || link.end().is_some() {
        return None;
    }
    let (token, clean) = split_key(request.uri())?;
    let token = PreviewToken::parse(&token).filter(|token| is_same(token, link.token()))?;
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(clean).ok()?);
    headers.insert(SET_COOKIE, Jar::of(&link.record().id).key(&token, seen.is_https)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// The token in a query, and the path and query without it.
fn split_key(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let token = query.split('&').find_map(|pair| pair.strip_prefix(KEY_PARAMETER)?.strip_prefix('='))?;
    let is_key = |pair: &&str| pair.split('=').next() == Some(KEY_PARAMETER);
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
    // What begins with two slashes would be another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let clean = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    Some((token.to_owned(), clean))
}

fn is_same(one: &PreviewToken, other: &PreviewToken) -> bool {
    one.expose().as_bytes().ct_eq(other.expose().as_bytes()).into()
}

/// Whether a page of another origin made the request, or one that would outlive the preview at this address.
fn is_foreign(headers: &HeaderMap, own: &str) -> bool {
    let is = |name: &HeaderName, values: &[&str]| {
        headers.get(name).is_some_and(|found| values.iter().any(|value| found.as_bytes() == value.as_bytes()))
    };
    let origin =
        headers.get(ORIGIN).is_some_and(|origin| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    let site = is(&SEC_FETCH_SITE, &["cross-site", "same-site"]) && !is(&SEC_FETCH_MODE, &["navigate"]);
    origin || site || headers.contains_key(&SERVICE_WORKER)
}

fn empty() -> PreviewBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Why a request got no answer.
fn refused(error: &legacy::Error, port: u16) -> Trouble {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<service::Error>() {
            return trouble_of(error, port);
        }
        cause = error.source();
    }
    debug!(error = error as &dyn std::error::Error, "a server in a sandbox broke off");
    Trouble::BrokeOff
}

fn trouble_of(error: &service::Error, port: u16) -> Trouble {
    match error {
        service::Error::PortClosed { .. } => Trouble::NothingListens(port),
        service::Error::NotFound { resource: "port" } => Trouble::NotOffered,
        service::Error::NotFound { .. } => Trouble::Ended(crate::model::preview::LinkEnd::SandboxGone),
        error => {
            debug!(error = error as &dyn std::error::Error, "a preview's sandbox cannot be had");
            Trouble::NotReady
        }
    }
}

/// A server's answer on its way, for as long as the link holds. The sandbox is in use until its end.
struct Watched {
    body: Incoming,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _used: PreviewUse,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(BrokenOff::Over)));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BrokenOff::Server)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_and_the_rest_of_the_address_stays() {
        let split = |uri: &str| split_key(&uri.parse().unwrap());
        let wanted = |clean: &str| Some(("t".to_owned(), clean.to_owned()));
        assert_eq!(split("/?preview-key=t"), wanted("/"));
        assert_eq!(split("/a/b?x=1&preview-key=t&y"), wanted("/a/b?x=1&y"));
        assert_eq!(split("//evil.example/?preview-key=t"), wanted("/evil.example/"));
        assert_eq!(split("/a?preview-keys=t"), None);
        assert_eq!(split("/a"), None);
    }

    #[test]
    fn only_the_previews_own_pages_and_people_are_let_in_by_a_cookie() {
        let foreign = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            is_foreign(&headers, "http://box:42000")
        };
        assert!(!foreign(&[]));
        assert!(!foreign(&[("origin", "http://box:42000"), ("sec-fetch-site", "same-origin")]));
        assert!(!foreign(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        assert!(foreign(&[("origin", "http://box:42001")]));
        assert!(foreign(&[("origin", "null")]));
        assert!(foreign(&[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]));
        assert!(foreign(&[("service-worker", "script"), ("sec-fetch-site", "same-origin")]));
    }
}
