//! Authentication of visitors: which link a request has, and whether it is valid.
//!
//! A link with a host name of its own carries its token there. A link with a port of its own carries it once in the
//! URL, and then in a cookie. A link that downloads a file carries it in the path. Wrong tokens are counted for each
//! address of a visitor.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, Request, Response, StatusCode, Uri};
use sandbox_api::port::LinkStyle;
use subtle::ConstantTimeEq;

use super::address::{self, HostName};
use super::body::{self, PreviewBody};
use super::cookies::Jar;
use super::headers::RequestContext;
use super::pages::PreviewError;
use crate::model::download::{self, DownloadGrant};
use crate::model::limits;
use crate::model::preview::{LinkEnd, PreviewToken};
use crate::service::{Link, Service};
use listen::throttle::{Allowance, Throttle};

/// Limit of wrong tokens from one address, for the API and for the gateway.
pub(crate) const WRONG_TOKENS: Allowance = Allowance {
    failures: limits::AUTH_FAILURES,
    period: limits::AUTH_FAILURE_PERIOD,
    max_peers: limits::MAX_AUTH_PEERS,
};

/// Query parameter with the token in the URL of a link that has its own port.
pub(crate) const KEY_PARAMETER: &str = "preview-key";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// Previews that a listener serves.
#[derive(Debug, Clone)]
pub(super) enum ListenerScope {
    /// All previews with a host name of their own.
    ByHostName,
    /// The preview of this link.
    Link(Arc<Link>),
}

/// An authenticated request.
pub(super) struct Admitted {
    pub(super) link: Arc<Link>,
    pub(super) context: RequestContext,
    /// Set if the preview shares its host name with others.
    pub(super) jar: Option<Jar>,
}

/// Result of an authentication without error.
pub(super) enum Admission {
    Admitted(Admitted),
    /// A link that downloads a file.
    Download(DownloadGrant),
    /// A redirect that replaces the token in the URL with a cookie.
    Answered(Response<PreviewBody>),
}

/// Authenticates requests.
#[derive(Debug)]
pub(super) struct Authenticator {
    service: Arc<Service>,
    wrong_tokens: Throttle,
}

impl Authenticator {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, wrong_tokens: Throttle::new(WRONG_TOKENS) }
    }

    /// Finds the valid link of a request.
    pub(super) fn admit<B>(
        &self,
        request: &Request<B>,
        scope: &ListenerScope,
        visitor: IpAddr,
    ) -> Result<Admission, PreviewError> {
        if request.method() == Method::CONNECT || request.uri().authority().is_some() {
            return Err(PreviewError::Malformed("This server is not a proxy."));
        }
        listen::shape::check(request).map_err(PreviewError::Ambiguous)?;
        let host = host(request.headers())?;
        let admitted = match scope {
            ListenerScope::ByHostName => {
                match address::parse_host(host, &self.service.previews().settings().domain) {
                    Some(named) => self.by_name(host, &named, visitor)?,
                    // No preview has this host name.
                    None => return self.by_path(request.uri(), visitor).map(Admission::Download),
                }
            }
            ListenerScope::Link(link) => {
                let context = self.context_of(host, visitor, link);
                if let Some((token, clean)) = key(request.uri(), link) {
                    if let Some(end) = link.end() {
                        return Err(PreviewError::Ended(end));
                    }
                    if let Some(answer) = follow_link(request.method(), link, &context, &token, clean) {
                        return Ok(Admission::Answered(answer));
                    }
                }
                self.by_cookie(request.headers(), link, context)?
            }
        };
        match admitted.link.end() {
            Some(end) => Err(PreviewError::Ended(end)),
            None => Ok(Admission::Admitted(admitted)),
        }
    }

    fn by_name(&self, host: &str, named: &HostName, visitor: IpAddr) -> Result<Admitted, PreviewError> {
        let link = self
            .service
            .previews()
            .link_of_token(&named.token)
            .filter(|link| link.record().port == named.port && link.record().style == LinkStyle::Host);
        let link = link.ok_or_else(|| self.wrong_token(visitor))?;
        let context = self.context_of(host, visitor, &link);
        Ok(Admitted { link, context, jar: None })
    }

    /// Finds the valid download link in the path. A link works under every host name, because its token is in the path.
    fn by_path(&self, uri: &Uri, visitor: IpAddr) -> Result<DownloadGrant, PreviewError> {
        let downloads = self.service.downloads();
        let grant = download::token_of(uri.path()).and_then(|token| downloads.open_link(token));
        let grant = grant.ok_or_else(|| self.wrong_token(visitor))?;
        if downloads.is_expired(&grant) { Err(PreviewError::Ended(LinkEnd::Expired)) } else { Ok(grant) }
    }

    fn by_cookie(
        &self,
        headers: &HeaderMap,
        link: &Arc<Link>,
        context: RequestContext,
    ) -> Result<Admitted, PreviewError> {
        let jar = Jar::of(&link.record().id);
        if !jar.tokens(headers).iter().any(|token| is_same(token, link.token())) {
            return Err(self.wrong_token(context.visitor));
        }
        // A browser sends the cookie with requests of any page, so the request must come from the preview or from the user.
        if is_foreign(headers, &context.origin()) {
            return Err(PreviewError::CrossSite);
        }
        Ok(Admitted { link: Arc::clone(link), context, jar: Some(jar) })
    }

    fn wrong_token(&self, visitor: IpAddr) -> PreviewError {
        match self.wrong_tokens.failed(visitor) {
            Ok(()) => PreviewError::Unknown,
            Err(wait) => PreviewError::TooManyGuesses(wait.as_secs() + 1),
        }
    }

    fn context_of(&self, host: &str, visitor: IpAddr, link: &Link) -> RequestContext {
        let settings = self.service.previews().settings();
        let is_https = match link.record().style {
            LinkStyle::Host => settings.front.is_some_and(|front| front.is_https),
            LinkStyle::Port => settings.is_https,
        };
        RequestContext { host: host.to_owned(), is_https, visitor, port: link.record().port }
    }
}

/// Value of the Host header, of which there must be one.
fn host(headers: &HeaderMap) -> Result<&str, PreviewError> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err(PreviewError::Malformed("It must have one Host header.")),
    }
}

/// Returns the link's token, if the URL contains it, and the path and query without it.
fn key(uri: &Uri, link: &Link) -> Option<(PreviewToken, String)> {
    let (token, clean) = split_key(uri)?;
    let token = PreviewToken::parse(&token).filter(|token| is_same(token, link.token()))?;
    Some((token, clean))
}

/// Sets the token as a cookie and redirects to the same page without the token in the URL. URLs are copied, logged and
/// sent to other sites.
fn follow_link(
    method: &Method,
    link: &Link,
    context: &RequestContext,
    token: &PreviewToken,
    clean: String,
) -> Option<Response<PreviewBody>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(clean).ok()?);
    headers.insert(SET_COOKIE, Jar::of(&link.record().id).key_cookie(token, context.is_https)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// Splits a URL into the token in its query, and the path and query without it.
fn split_key(uri: &Uri) -> Option<(String, String)> {
    let query = uri.query()?;
    let token = query.split('&').find_map(|pair| pair.strip_prefix(KEY_PARAMETER)?.strip_prefix('='))?;
    let is_key = |pair: &&str| pair.split('=').next() == Some(KEY_PARAMETER);
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
    // A path that begins with two slashes would be another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let clean = if rest.is_empty() { path } else { format!("{path}?{}", rest.join("&")) };
    Some((token.to_owned(), clean))
}

fn is_same(one: &PreviewToken, other: &PreviewToken) -> bool {
    one.expose().as_bytes().ct_eq(other.expose().as_bytes()).into()
}

/// Whether a page of another origin made the request, or the request is for a service worker, which would outlive the preview
/// at this address.
fn is_foreign(headers: &HeaderMap, own: &str) -> bool {
    let is = |name: &HeaderName, values: &[&str]| {
        headers.get(name).is_some_and(|found| values.iter().any(|value| found.as_bytes() == value.as_bytes()))
    };
    let origin =
        headers.get(ORIGIN).is_some_and(|origin| !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    let site = is(&SEC_FETCH_SITE, &["cross-site", "same-site"]) && !is(&SEC_FETCH_MODE, &["navigate"]);
    origin || site || headers.contains_key(&SERVICE_WORKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_removed_from_the_address() {
        let split = |uri: &str| split_key(&uri.parse().unwrap());
        let wanted = |clean: &str| Some(("t".to_owned(), clean.to_owned()));
        assert_eq!(split("/?preview-key=t"), wanted("/"));
        assert_eq!(split("/a/b?x=1&preview-key=t&y"), wanted("/a/b?x=1&y"));
        assert_eq!(split("//evil.example/?preview-key=t"), wanted("/evil.example/"));
        assert_eq!(split("/a?preview-keys=t"), None);
        assert_eq!(split("/a"), None);
    }

    #[test]
    fn a_cookie_admits_only_the_previews_pages_and_navigation() {
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
