//! Anthropic's messages.
//!
//! What would surprise: signed thoughts must come back exactly as they came, so they are kept as they were, apart from the
//! text that people see of them; and a conversation with one odd call in it is refused as a whole, so calls are sent back mended.

mod ask;
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

/// The generation of the interface that is spoken.
const VERSION: &str = "2023-06-01";

/// A server that speaks Anthropic's messages. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Anthropic {
    server: Server,
}

impl Anthropic {
    /// The server at `base`, such as `https://api.anthropic.com`, with a key where it wants one. A `/v1` at the end may be left
    /// out. Nothing is sent yet.
    ///
    /// Errors: an address that is not HTTP's, or has a password or a query; a key that no header takes.
    pub fn new(base: Url, key: Option<SecretString>) -> Result<Self> {
        let header = KeyHeader(HeaderName::from_static("x-api-key"), "");
        let has_version = base.path().trim_end_matches('/').ends_with("/v1");
        let path = if has_version { "/messages" } else { "/v1/messages" };
        let server = Server::new(base, path, header, key)?;
        let version = HeaderName::from_static("anthropic-version");
        Ok(Self { server: server.with_header(version, HeaderValue::from_static(VERSION)) })
    }

    /// The same server, which may be silent for so long: before its answer begins, and in the middle of it.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { server: self.server.with_patience(patience) }
    }
}

impl ModelClient for Anthropic {
    fn ask(&self, request: Request) -> BoxStream<'static, Result<Piece>> {
        let host = &self.server.host;
        let reader = EventReader::new(host.clone(), &request);
        self.server.ask(&ask::Body::of(&request, host), reader)
    }
}
