//! OpenAI's chat completions, and the many servers that speak them: Ollama, vLLM, llama.cpp, OpenRouter, Gemini.
//!
//! No two of them agree, so little is asked for and much is understood: see [`chunk`] for what they leave out or say otherwise.
//! Options that only some know are not sent.

mod ask;
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

/// A server that speaks OpenAI's chat completions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OpenAi {
    server: Server,
}

impl OpenAi {
    /// The server whose interface is at `base`, such as `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`, with a key
    /// where it wants one. Nothing is sent yet.
    ///
    /// Errors: an address that is not HTTP's, or has a password or a query; a key that no header takes.
    pub fn new(base: Url, key: Option<SecretString>) -> Result<Self> {
        let header = KeyHeader(AUTHORIZATION, "Bearer ");
        Ok(Self { server: Server::new(base, "/chat/completions", header, key)? })
    }

    /// The same server, which may be silent for so long: before its answer begins, and in the middle of it.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { server: self.server.with_patience(patience) }
    }
}

impl ModelClient for OpenAi {
    fn ask(&self, request: Request) -> BoxStream<'static, Result<Piece>> {
        let host = &self.server.host;
        let reader = ChunkReader::new(host.clone(), &request);
        self.server.ask(&ask::Body::of(&request, host), reader)
    }
}
