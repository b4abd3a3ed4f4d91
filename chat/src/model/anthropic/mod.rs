//! Anthropic's messages.
//!
//! Signed reasoning must be sent back exactly as it was received, so it is stored unchanged beside the text for the
//! user. A conversation with one invalid call is rejected as a whole, so calls are corrected before they are sent
//! back.

mod body;
mod event;
mod reader;

use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use secrecy::SecretString;
use url::Url;

use self::reader::EventReader;
use super::server::{KeyHeader, Server};
use super::{ModelClient, Piece, Request, Result};

/// Version of the API.
const VERSION: &str = "2023-06-01";

/// A client for Anthropic's messages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Anthropic {
    server: Server,
}

impl Anthropic {
    /// Creates a client for the API at `base`, such as `https://api.anthropic.com`, with a key if it requires one. A
    /// `/v1` at the end is optional. Sends nothing yet.
    ///
    /// Fails if the address is not an HTTP URL, or has a password or a query. Also fails if the key is
    /// invalid in a header.
    pub fn new(base: Url, key: Option<SecretString>) -> Result<Self> {
        let header = KeyHeader(HeaderName::from_static("x-api-key"), "");
        let has_version = base.path().trim_end_matches('/').ends_with("/v1");
        let path = if has_version { "/messages" } else { "/v1/messages" };
        let server = Server::new(base, path, header, key)?;
        let version = HeaderName::from_static("anthropic-version");
        Ok(Self { server: server.with_header(version, HeaderValue::from_static(VERSION)) })
    }

    /// Sets the maximum silence before and during an answer.
    pub fn with_timeouts(self, limit: Duration) -> Self {
        Self { server: self.server.with_timeouts(limit) }
    }
}

impl ModelClient for Anthropic {
    fn stream(&self, request: Request) -> BoxStream<'static, Result<Piece>> {
        let host = &self.server.host;
        let reader = EventReader::new(host.clone(), &request);
        self.server.stream(&body::Body::of(&request, host), reader)
    }
}
