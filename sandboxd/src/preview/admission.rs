//! Who may see which preview.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, Request, Response, StatusCode, Uri};
use sandbox_api::port::LinkStyle;
use subtle::ConstantTimeEq;

use super::address;
use super::body::{self, PreviewBody};
use super::cookies::Jar;
use super::headers::Seen;
use super::pages::Trouble;
use crate::model::limits;
use crate::model::preview::PreviewToken;
use crate::service::{Link, Service};
use listen::throttle::Throttle;

/// The parameter that a link with a port of its own carries its token in.
pub(crate) const KEY_PARAMETER: &str = "preview-key";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");

/// What a listening port leads to.
#[derive(Debug, Clone)]
pub(super) enum Entrance {
    /// To all previews that are found by name.
    ByName,
    /// To the one of this link.
    Own(Arc<Link>),
}

/// A visitor at the right door.
pub(super) struct Admitted {
    pub(super) link: Arc<Link>,
    pub(super) seen: Seen,
    /// Where the preview shares its host name with others.
    pub(super) jar: Option<Jar>,
}

/// What becomes of a visitor.
pub(super) enum Admission {
    Admitted(Admitted),
    /// Asked to come again, with a cookie instead of the token.
    Answered(Response<PreviewBody>),
}

/// Keeps the doors.
#[derive(Debug)]
pub(super) struct Porter {
    service: Arc<Service>,
    guesses: Throttle,
}

impl Porter {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, guesses: Throttle::new(limits::AUTH_FAILURES) }
    }

    /// Whether the request is one of somebody with a link, and which.
    pub(super) fn admit<B>(
        &self,
        request: &Request<B>,
        entrance: &Entrance,
        visitor: IpAddr,
    ) -> Result<Admission, Trouble> {
        if request.method() == Method::CONNECT || request.uri().authority().is_some() {
            return Err(Trouble::Malformed("This is no proxy."));
        }
        listen::shape::check(request).map_err(Trouble::Shape)?;
        let host = host(request.headers())?;
        let admitted = match entrance {
            Entrance::ByName => self.by_name(host, visitor)?,
            Entrance::Own(link) => {
                let seen = self.seen(host, visitor, link);
                if let Some((token, clean)) = key(request.uri(), link) {
                    if let Some(end) = link.end() {
                        return Err(Trouble::Ended(end));
                    }
                    if let Some(answer) = follow_link(request.method(), link, &seen, &token, clean) {
                        return Ok(Admission::Answered(answer));
                    }
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
        let named = address::named(host, &self.service.previews().settings().domain);
        let link = named.and_then(|named| {
            let link = self.service.previews().link_of_token(&named.token)?;
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
        let settings = self.service.previews().settings();
        let is_https = match link.record().style {
            LinkStyle::Host => settings.front.is_some_and(|front| front.is_https),
            LinkStyle::Port => settings.is_https,
        };
        Seen { host: host.to_owned(), is_https, visitor, port: link.record().port }
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

/// The token of the link, where the visitor comes with it, and the path and query without it.
fn key(uri: &Uri, link: &Link) -> Option<(PreviewToken, String)> {
    let (token, clean) = split_key(uri)?;
    let token = PreviewToken::parse(&token).filter(|token| is_same(token, link.token()))?;
    Some((token, clean))
}

/// Whoever comes with the link's token is given it as a cookie, and sent to the same page without it: an address is
/// copied, logged and told to other sites.
fn follow_link(
    method: &Method,
    link: &Link,
    seen: &Seen,
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
    headers.insert(SET_COOKIE, Jar::of(&link.record().id).key(token, seen.is_https)?);
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
