//! OpenAI's chat completions, and the many servers that support them: Ollama, vLLM, llama.cpp, OpenRouter, Gemini.
//!
//! No two of them agree, so requests use few features and many variations of responses are accepted. See [`chunk`].
//! Options that only some servers support are not sent.

mod body;
mod chunk;
mod reader;

use std::time::Duration;

use futures::stream::BoxStream;
use http::header::AUTHORIZATION;
use secrecy::SecretString;
use url::Url;

use self::reader::ChunkReader;
use super::server::{KeyHeader, Server};
use super::{ModelClient, Piece, Request, Result};

/// A client for OpenAI's chat completions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OpenAi {
    server: Server,
}

impl OpenAi {
    /// Creates a client for the API at `base`, such as `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`,
    /// with a key if it requires one. Sends nothing yet.
    ///
    /// Fails if the address is not an HTTP URL, or has a password or a query. Also fails if the key is
    /// invalid in a header.
    pub fn new(base: Url, key: Option<SecretString>) -> Result<Self> {
        let header = KeyHeader(AUTHORIZATION, "Bearer ");
        Ok(Self { server: Server::new(base, "/chat/completions", header, key)? })
    }

    /// Sets the maximum silence before and during an answer.
    pub fn with_timeouts(self, limit: Duration) -> Self {
        Self { server: self.server.with_timeouts(limit) }
    }
}

impl ModelClient for OpenAi {
    fn stream(&self, request: Request) -> BoxStream<'static, Result<Piece>> {
        let host = &self.server.host;
        let reader = ChunkReader::new(host.clone(), &request);
        self.server.stream(&body::Body::of(&request, host), reader)
    }
}
