//! Requests and their responses.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use sandbox_api::TOKEN_HEADER;
use sandbox_api::error::ErrorBody;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::{Body, BoxError};
use crate::deadlines::{ACT, UNLIMITED};
use crate::error::Error;
use crate::transport::Transport;

/// A request in preparation. An error of an earlier step is reported when it is sent.
#[derive(Debug)]
pub(crate) struct RequestBuilder {
    transport: Arc<dyn Transport>,
    method: Method,
    path: String,
    headers: Vec<(HeaderName, Result<HeaderValue, http::Error>)>,
    body: Body,
    invalid: Option<Error>,
}

impl RequestBuilder {
    pub(crate) fn new(transport: &Arc<dyn Transport>, token: &str, method: Method, path: &str) -> Self {
        let request = Self {
            transport: Arc::clone(transport),
            method,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Body::empty(),
            invalid: None,
        };
        request.header(HeaderName::from_static(TOKEN_HEADER), token)
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.push((name, HeaderValue::from_str(value).map_err(Into::into)));
        self
    }

    /// Appends parameters to the query.
    pub(crate) fn query(mut self, parameters: &impl Serialize) -> Self {
        match serde_urlencoded::to_string(parameters) {
            Ok(query) if query.is_empty() => {}
            Ok(query) => {
                let separator = if self.path.contains('?') { '&' } else { '?' };
                // Writing to a string does not fail.
                let _ = write!(self.path, "{separator}{query}");
            }
            Err(error) => self.invalid = Some(Error::Invalid(error.into())),
        }
        self
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(json) => self.body(json).header(CONTENT_TYPE, "application/json"),
            Err(error) => {
                self.invalid = Some(Error::Invalid(error.into()));
                self
            }
        }
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    fn build(self) -> Result<http::Request<Body>, Error> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let mut request = http::Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value.map_err(|error| Error::Invalid(error.into()))?);
        }
        request.body(self.body).map_err(|error| Error::Invalid(error.into()))
    }
}

/// Sends a request and reads its JSON response within `limit`.
pub(crate) async fn json<T: DeserializeOwned>(
    request: RequestBuilder,
    limit: impl Into<Option<Duration>>,
) -> Result<T, Error> {
    within(limit.into(), async {
        let body = respond(request).await?.into_body().collect().await.map_err(broken)?;
        serde_json::from_slice(&body).map_err(|error| broken(error.into()))
    })
    .await
}

/// Sends a request for a stream. It must begin within [`ACT`], and has no deadline after that.
pub(crate) async fn send_for_stream(request: RequestBuilder) -> Result<Response<Body>, Error> {
    tokio::time::timeout(ACT, send(request, UNLIMITED)).await.unwrap_or(Err(Error::Silent { after: ACT }))
}

/// Sends a request. A response without a success status becomes an error.
pub(crate) async fn send(request: RequestBuilder, limit: Option<Duration>) -> Result<Response<Body>, Error> {
    within(limit, respond(request)).await
}

async fn respond(request: RequestBuilder) -> Result<Response<Body>, Error> {
    let transport = Arc::clone(&request.transport);
    let response = transport.send(request.build()?).await.map_err(Error::Broken)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = retry_after(response.headers());
    let bytes = response.into_body().collect().await.map_err(broken)?;
    match serde_json::from_slice::<ErrorBody>(&bytes) {
        Ok(body) => Err(Error::Refused { status: status.as_u16(), body: Box::new(body), retry_after }),
        Err(_) => Err(Error::Foreign { status: status.as_u16() }),
    }
}

/// The time of a `Retry-After` header (RFC 9110 section 10.2.3). The daemon sends seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

pub(crate) fn broken(error: BoxError) -> Error {
    Error::Broken(error.into())
}

async fn within<T>(limit: Option<Duration>, act: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match limit {
        None => act.await,
        Some(after) => tokio::time::timeout(after, act).await.unwrap_or(Err(Error::Deadline { after })),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::Request;
    use sandbox_api::ErrorCode;
    use sandbox_api::sandbox::CreateSandbox;

    use super::*;
    use crate::transport::{Connection, TransportError};
    use crate::{ByteRange, Client, WriteOptions};

    /// A transport in process that responds to every request in the same way and keeps the last one.
    #[derive(Debug, Default)]
    struct Fixed {
        status: u16,
        content: &'static str,
        /// Whether the response never arrives.
        is_silent: bool,
        last: Arc<Mutex<Option<Request<Bytes>>>>,
    }

    impl Fixed {
        fn client(self) -> (Client, Arc<Mutex<Option<Request<Bytes>>>>) {
            let last = Arc::clone(&self.last);
            (Client::with_transport(Arc::new(self), "the token"), last)
        }
    }

    impl Transport for Fixed {
        fn send(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
            let (status, content, is_silent) = (self.status, self.content, self.is_silent);
            let last = Arc::clone(&self.last);
            async move {
                let (head, body) = request.into_parts();
                *last.lock().unwrap() = Some(Request::from_parts(head, body.collect().await?));
                if is_silent {
                    return std::future::pending().await;
                }
                Ok(Response::builder().status(status).body(Body::from(content)).unwrap())
            }
            .boxed()
        }

        fn websocket_base(&self) -> String {
            "ws://localhost".into()
        }

        fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
            async { Err(TransportError::connecting("no WebSockets here")) }.boxed()
        }
    }

    const REFUSAL: &str = r#"{"error":"no","code":"not_found","details":{},"requestId":"req_1"}"#;

    #[tokio::test]
    async fn a_request_has_token_path_query_and_content() {
        let (client, last) =
            Fixed { status: 200, content: r#"{"etag":"1","created":true}"#, ..Fixed::default() }.client();
        let options = WriteOptions { mode: Some(0o644), if_match: Some("a"), ..WriteOptions::default() };
        let _ = client.put_file(&"sbx_1234567890123456".parse().unwrap(), "a b", "text", options).await;
        let request = last.lock().unwrap().take().unwrap();
        assert_eq!(request.uri(), "/v1/sandboxes/sbx_1234567890123456/files?path=a%20b&mode=644");
        assert_eq!(request.headers()[TOKEN_HEADER], "the token");
        assert_eq!(request.headers()["if-match"], "\"a\"");
        assert_eq!(request.body(), "text");
    }

    #[tokio::test]
    async fn an_error_keeps_its_code_and_a_foreign_response_has_none() {
        let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
        let (client, _) = Fixed { status: 404, content: REFUSAL, ..Fixed::default() }.client();
        let refused = client.create_or_reconnect(&create).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::NotFound));
        let (client, _) = Fixed { status: 502, content: "<html>", ..Fixed::default() }.client();
        let foreign = client.create_or_reconnect(&create).await.unwrap_err();
        assert!(matches!(foreign, Error::Foreign { status: 502 }), "{foreign:?}");
        let (client, _) = Fixed { status: 200, content: "<html>", ..Fixed::default() }.client();
        let unreadable = client.create_or_reconnect(&create).await.unwrap_err();
        assert!(matches!(unreadable, Error::Broken(_)), "{unreadable:?}");
    }

    #[tokio::test]
    async fn content_is_read_in_pieces() {
        let (client, last) = Fixed { status: 206, content: "a film", ..Fixed::default() }.client();
        let sandbox = "sbx_1234567890123456".parse().unwrap();
        let film = client.get_file(&sandbox, "film", Some(ByteRange::From(3))).await.unwrap();
        assert_eq!(film.bytes(100).await.unwrap(), b"a film");
        assert_eq!(last.lock().unwrap().take().unwrap().headers()["range"], "bytes=3-");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_response_is_a_timeout() {
        let (client, _) = Fixed { is_silent: true, ..Fixed::default() }.client();
        let error = client.health().await.unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }) && error.is_temporary(), "{error:?}");
    }

    #[tokio::test]
    async fn a_token_that_is_not_a_header_value_is_invalid() {
        let transport = Fixed { status: 200, content: "{}", ..Fixed::default() };
        let client = Client::with_transport(Arc::new(transport), "two\nlines");
        let error = client.health().await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && !error.is_temporary(), "{error:?}");
    }
}
