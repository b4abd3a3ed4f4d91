//! A model's server: its address, and requests to it.
//!
//! Only this server gets the key. No redirect is followed, and the key is removed from all of its messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Response, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Host, Url};

use super::answer::{Answer, Reader};
use super::limits::{BEGIN, CONNECT, IDLE, MAX_REFUSAL_BYTES, REFUSAL, SILENCE};
use super::messages::{self, Redactor};
use super::{BadAddress, Error, Piece, Result};

const JSON: &str = "application/json";

/// A server with its key. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Server {
    http: reqwest::Client,
    endpoint: Url,
    /// Host, with its port unless that is the default.
    pub(super) host: Arc<str>,
    headers: HeaderMap,
    redactor: Redactor,
    begin: Duration,
    silence: Duration,
}

/// The header for a key, and the prefix of its value.
pub(super) struct KeyHeader(pub(super) HeaderName, pub(super) &'static str);

impl Server {
    /// Creates a server at `base`, with the `path` of its requests. Sends nothing yet.
    pub(super) fn new(
        mut base: Url,
        path: &str,
        KeyHeader(name, prefix): KeyHeader,
        key: Option<SecretString>,
    ) -> Result<Self> {
        check(&base).map_err(Error::BadAddress)?;
        let key = key.map(|key| key.expose_secret().trim().to_owned()).filter(|key| !key.is_empty());
        let accept = HeaderValue::from_static("text/event-stream, application/json");
        let mut headers =
            HeaderMap::from_iter([(ACCEPT, accept), (CONTENT_TYPE, HeaderValue::from_static(JSON))]);
        if let Some(key) = &key {
            let mut value = HeaderValue::from_str(&format!("{prefix}{key}")).map_err(|_| Error::BadKey)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        base.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        Ok(Self {
            http: client(&base)?,
            host: base.authority().into(),
            endpoint: base,
            headers,
            redactor: Redactor::new(key.map(SecretString::from)),
            begin: BEGIN,
            silence: SILENCE,
        })
    }

    /// Adds a header to every request.
    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets the maximum silence.
    pub(super) fn with_timeouts(self, limit: Duration) -> Self {
        Self { begin: limit, silence: limit, ..self }
    }

    /// Sends a request and streams the answer.
    pub(super) fn stream(
        &self,
        body: &impl Serialize,
        reader: impl Reader,
    ) -> BoxStream<'static, Result<Piece>> {
        let body = serde_json::to_vec(body).expect("bodies are maps of text and numbers, which JSON has");
        let server = self.clone();
        let redactor = self.redactor.clone();
        let answer = async move {
            let response = timeout(server.begin, server.send(body)).await;
            let response = response.unwrap_or(Err(Error::Silent { after: server.begin }))?;
            let is_whole = is_of_type(&response, JSON);
            let mut answer = Answer::new(response, reader, server.silence, server.redactor);
            if is_whole {
                answer.read_whole().await?;
            }
            Ok(answer.pieces())
        };
        let answer = async move { answer.await.map_err(|error| redactor.of_error(error)) };
        stream::once(answer).try_flatten().boxed()
    }

    async fn send(&self, body: Vec<u8>) -> Result<Response> {
        let request = self.http.post(self.endpoint.clone()).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|error| Error::Unreachable {
            host: self.host.to_string(),
            source: error.without_url(),
        })?;
        match response.status() {
            StatusCode::OK if is_of_type(&response, "text/html") => {
                Err(Error::Garbage { what: "a web page; check the address".to_owned() })
            }
            StatusCode::OK => Ok(response),
            _ => Err(refusal(response).await),
        }
    }
}

fn client(base: &Url) -> Result<reqwest::Client> {
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .user_agent(concat!("chat/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none());
    // A proxy for the internet cannot reach a server on this machine.
    let client = if is_loopback(base) { client.no_proxy() } else { client };
    client.build().map_err(Error::Setup)
}

fn check(base: &Url) -> std::result::Result<(), BadAddress> {
    if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
        return Err(BadAddress::NotHttp);
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(BadAddress::Credentials);
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(BadAddress::Query);
    }
    Ok(())
}

fn is_loopback(base: &Url) -> bool {
    match base.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

fn is_of_type(response: &Response, wanted: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

/// Reads an error response. It is an error even if its body cannot be read.
async fn refusal(mut response: Response) -> Error {
    let status = response.status();
    let is_page = is_of_type(&response, "text/html");
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    let ends_at = Instant::now() + REFUSAL;
    let mut body = BytesMut::new();
    while let Ok(Ok(Some(part))) = timeout_at(ends_at, response.chunk()).await
        && body.len() < MAX_REFUSAL_BYTES
    {
        body.extend_from_slice(&part);
    }
    let message = match serde_json::from_slice::<Value>(&body) {
        Ok(fault) => messages::of_fault(&fault),
        Err(_) if is_page => String::new(),
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    let message = match message.trim() {
        "" => status.canonical_reason().unwrap_or("without a reason").to_owned(),
        _ => message,
    };
    Error::Refused { status: status.as_u16(), message, retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(base: &str, key: Option<&str>) -> Result<Server> {
        let header = KeyHeader(HeaderName::from_static("x-key"), "Bearer ");
        Server::new(base.parse().unwrap(), "/chat", header, key.map(SecretString::from))
    }

    #[test]
    fn the_path_of_the_base_url_is_kept() {
        for (base, endpoint) in [
            ("http://one.example", "http://one.example/chat"),
            ("http://one.example/", "http://one.example/chat"),
            ("https://one.example:8443/a%20b/v1", "https://one.example:8443/a%20b/v1/chat"),
            ("https://one.example/v1//", "https://one.example/v1/chat"),
        ] {
            assert_eq!(server(base, None).unwrap().endpoint.as_str(), endpoint);
        }
    }

    #[test]
    fn an_unusable_address_is_rejected() {
        for (base, wanted) in [
            ("ftp://one.example", BadAddress::NotHttp),
            ("data:text/plain,x", BadAddress::NotHttp),
            ("http://name@one.example", BadAddress::Credentials),
            ("http://:s3cret@one.example", BadAddress::Credentials),
            ("http://one.example/?x=1", BadAddress::Query),
            ("http://one.example/#x", BadAddress::Query),
        ] {
            let error = server(base, None).unwrap_err();
            assert!(matches!(error, Error::BadAddress(fault) if fault == wanted), "{base}: {error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_key_is_trimmed_and_never_shown() {
        let with = server("http://one.example", Some(" s3cret\n")).unwrap();
        assert!(!format!("{with:?}").contains("s3cret"), "{with:?}");
        assert_eq!(with.headers["x-key"], "Bearer s3cret");
        assert!(!server("http://one.example", Some(" ")).unwrap().headers.contains_key("x-key"));
        assert!(matches!(server("http://one.example", Some("a\nb")), Err(Error::BadKey)));
    }

    #[test]
    fn every_loopback_address_is_recognised() {
        for (base, wanted) in [
            ("http://localhost:11434", true),
            ("http://api.localhost", true),
            ("http://127.8.0.1", true),
            ("http://[::1]", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost.example", false),
            ("http://192.168.0.2", false),
        ] {
            assert_eq!(is_loopback(&base.parse().unwrap()), wanted, "{base}");
        }
    }
}
