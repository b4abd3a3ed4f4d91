//! Requests to the provider, within limits.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::redirect::Policy;

use super::error::{Error, Result};

/// Time limit for a request.
const DEADLINE: Duration = Duration::from_secs(10);

/// Maximum length of a response in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// An HTTP client that follows no redirects: a provider could redirect it to an address inside the operator's network.
#[derive(Debug)]
pub(super) struct Fetch(reqwest::Client);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("the request failed")]
    Request(#[from] reqwest::Error),
    #[error("the response has more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("the response is invalid")]
    Response(#[from] http::Error),
}

impl Fetch {
    pub(super) fn new() -> Result<Self> {
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(DEADLINE).build();
        Ok(Self(client.map_err(Error::Client)?))
    }

    async fn send(&self, request: HttpRequest) -> std::result::Result<HttpResponse, FetchError> {
        let (parts, body) = request.into_parts();
        let request = self.0.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let response = request.send().await?;
        let mut built = http::Response::builder().status(response.status());
        if let Some(headers) = built.headers_mut() {
            headers.clone_from(response.headers());
        }
        let (mut pieces, mut body) = (response.bytes_stream(), Vec::new());
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            if body.len() + piece.len() > MAX_BYTES {
                return Err(FetchError::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        Ok(built.body(body)?)
    }
}

impl<'c> AsyncHttpClient<'c> for Fetch {
    type Error = FetchError;
    type Future = BoxFuture<'c, std::result::Result<HttpResponse, FetchError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}
