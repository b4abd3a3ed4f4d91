//! Requests over TLS through the gate, with redirects.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Proxy, Response, Url};
use sandboxd_egress::Gate;
use sandboxd_model::repository::{GitTokens, HttpsUrl};
use sandboxd_model::{CaBundle, Host, Upstream, limits};
use tokio::sync::Semaphore;

use crate::Error;

const HTTPS_PORT: u16 = 443;

/// Sent with each look-up. Some servers respond to nothing but git.
const AGENT: HeaderValue = HeaderValue::from_static("git/2 (sandboxd)");

/// Asks git servers and registries. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    gate: Arc<Gate>,
    certificates: Vec<Certificate>,
    tokens: GitTokens,
    /// Permits for look-ups of names.
    names: Arc<Semaphore>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// A request.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the token of its host is sent, if there is one.
    pub(crate) with_token: bool,
    pub(crate) follows_redirects: bool,
}

/// A response, and the address that sent it.
pub(crate) struct Answer {
    pub(crate) url: Url,
    pub(crate) response: Response,
}

impl Client {
    /// Creates a client. It trusts the certificates of `ca_bundle` besides those of the system.
    pub fn new(gate: Arc<Gate>, ca_bundle: Option<&CaBundle>, tokens: GitTokens) -> Self {
        let certificates = ca_bundle.and_then(|bundle| Certificate::from_pem_bundle(bundle.pem()).ok());
        let certificates = certificates.unwrap_or_default();
        Self { gate, certificates, tokens, names: Arc::new(Semaphore::new(limits::MAX_LOOKUPS_EACH)) }
    }

    /// Whether there is a token for any address.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether there is a token for the address.
    pub fn has_token(&self, url: &HttpsUrl) -> bool {
        self.tokens.has(url)
    }

    /// Sends a request and follows redirects. Each goes through the gate again. A token is sent to its own host only, and not
    /// any more after a redirect to another one.
    pub(crate) async fn send(&self, call: Call) -> Result<Answer, Error> {
        let mut url = call.url.clone();
        let origin = target_of(&url)?;
        let mut token = self.tokens.authorization(&origin).filter(|_| call.with_token);
        for _ in 0..=limits::MAX_GIT_REDIRECTS {
            let target = target_of(&url)?;
            if !target.has_origin_of(&origin) {
                token = None;
            }
            let response = self.send_once(&call, &url, &target, token.as_deref()).await?;
            if !response.status().is_redirection() {
                return Ok(Answer { url, response });
            }
            if !call.follows_redirects {
                return Err(Error::Redirect);
            }
            let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            url = location.and_then(|to| url.join(to).ok()).ok_or(Error::Redirect)?;
        }
        Err(Error::Redirect)
    }

    async fn send_once(
        &self,
        call: &Call,
        url: &Url,
        target: &HttpsUrl,
        token: Option<&str>,
    ) -> Result<Response, Error> {
        let client = self.connected_to(target).await?;
        let mut request = client.request(call.method.clone(), url.clone()).headers(call.headers.clone());
        if !call.headers.contains_key(USER_AGENT) {
            request = request.header(USER_AGENT, AGENT);
        }
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(token).map_err(|_| Error::Malformed("the token"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let sent = tokio::time::timeout(limits::GIT_SILENCE, request.body(call.body.clone()).send());
        sent.await.map_err(|_| Error::Silent)?.map_err(Error::from_reqwest)
    }

    /// A client that connects to the checked addresses of the host, and to nothing else.
    async fn connected_to(&self, target: &HttpsUrl) -> Result<reqwest::Client, Error> {
        let (host, port) = (target.host(), target.port());
        let upstream = self.gate.upstream_of(host, port);
        let addresses = self.gate.addresses(host, port, &self.names).await;
        let addresses: Vec<SocketAddr> = match addresses {
            Ok(addresses) => addresses,
            // Behind a proxy, names of the public internet often cannot be resolved.
            Err(sandboxd_egress::Error::NotFound { .. } | sandboxd_egress::Error::Timeout)
                if upstream.is_some() =>
            {
                Vec::new()
            }
            Err(source) => return Err(Error::Gate { source }),
        };
        let builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .https_only(true)
            .http1_only()
            .connect_timeout(limits::EGRESS_CONNECT)
            .read_timeout(limits::GIT_SILENCE)
            .tls_certs_merge(self.certificates.iter().cloned());
        let builder = match (upstream, host) {
            (Some(upstream), _) => builder.proxy(proxy(upstream).map_err(Error::from_reqwest)?),
            (None, Host::Name(name)) => builder.resolve_to_addrs(name, &addresses),
            // The address itself was checked.
            (None, Host::Address(_)) => builder,
        };
        builder.build().map_err(Error::from_reqwest)
    }
}

/// The host and port of a request, as the gate knows them. Fails if it is not a plain `https` address.
fn target_of(url: &Url) -> Result<HttpsUrl, Error> {
    let is_plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
    let host = url.host_str().filter(|_| is_plain).ok_or(Error::Redirect)?;
    let port = url.port().unwrap_or(HTTPS_PORT);
    HttpsUrl::parse(&format!("https://{host}:{port}")).map_err(|_| Error::Redirect)
}

fn proxy(upstream: &Upstream) -> reqwest::Result<Proxy> {
    let proxy = Proxy::all(format!("http://{}:{}", upstream.host(), upstream.port()))?;
    Ok(match upstream.user() {
        Some(user) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            proxy.basic_auth(name, password)
        }
        None => proxy,
    })
}

impl Answer {
    /// Fails if the status is not 200.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        match self.response.status() {
            StatusCode::OK => Ok(self),
            status => Err(error_of(status, self.response.headers())),
        }
    }

    /// Reads the whole body.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>, Error> {
        let mut parts = self.response.bytes_stream();
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part.map_err(Error::from_reqwest)?);
            if body.len() > limits::MAX_LOOK_UP_BYTES {
                return Err(Error::TooLarge { max: limits::MAX_LOOK_UP_BYTES as u64 });
            }
        }
        Ok(body)
    }
}

/// What a status means. GitHub responds with 403 to too many requests, and with 401 where there is no repository.
pub(crate) fn error_of(status: StatusCode, headers: &HeaderMap) -> Error {
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let is_spent = headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
    match status {
        StatusCode::TOO_MANY_REQUESTS => Error::RateLimited { retry_after },
        StatusCode::FORBIDDEN if is_spent || retry_after.is_some() => Error::RateLimited { retry_after },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE => {
            Error::NotFound { status: status.as_u16() }
        }
        status => Error::Status { status: status.as_u16() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_https_addresses_are_requested() {
        let target = |text: &str| target_of(&text.parse().unwrap()).map(|url| url.to_string());
        assert_eq!(target("https://Git.Example/a?b=c").unwrap(), "https://git.example");
        assert_eq!(target("https://git.example:444/").unwrap(), "https://git.example:444");
        assert_eq!(target("https://[::1]/").unwrap(), "https://[::1]");
        for bad in ["http://git.example/", "https://user@git.example/", "ftp://git.example/", "file:///etc"] {
            assert!(matches!(target(bad), Err(Error::Redirect)), "{bad}");
        }
    }

    #[test]
    fn a_status_says_whether_to_try_again() {
        let error = |status: u16, headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
            error_of(StatusCode::from_u16(status).unwrap(), &headers.collect())
        };
        assert!(matches!(error(404, &[]), Error::NotFound { status: 404 }));
        assert!(matches!(error(401, &[]), Error::NotFound { .. }));
        assert!(matches!(error(403, &[]), Error::NotFound { .. }));
        assert!(matches!(
            error(403, &[("x-ratelimit-remaining", "0")]),
            Error::RateLimited { retry_after: None }
        ));
        let Error::RateLimited { retry_after } = error(429, &[("retry-after", "7")]) else {
            panic!("limited")
        };
        assert_eq!(retry_after, Some(Duration::from_secs(7)));
        assert!(matches!(error(503, &[]), Error::Status { status: 503 }));
    }
}
