//! The models: what they are asked and what they answer, piece by piece.
//!
//! Two ways to ask, OpenAI's chat completions and Anthropic's messages, behind one trait. A client knows its provider's words and
//! nothing of chats, tools or browsers. Whatever a server answers is not trusted: everything of it has a bound.

mod answer;
mod anthropic;
mod calls;
mod conversation;
mod error;
mod limits;
mod opaque;
mod openai;
mod server;
mod sse;
mod words;

use futures::stream::BoxStream;

pub use anthropic::Anthropic;
pub use conversation::{Block, Request, Thinking, ToolCall, ToolResult, Turn};
pub use error::{BadAddress, Error, Result};
pub use openai::OpenAi;

/// A way to ask models.
pub trait ModelClient: Send + Sync {
    /// Asks, and answers piece by piece. The last is [`Piece::End`] or an error. Dropping the stream ends the request.
    fn ask(&self, request: Request) -> BoxStream<'static, Result<Piece>>;
}

/// A piece of a model's answer, in the order in which they come.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// More text.
    Text(String),
    /// More of what it thinks aloud.
    Thinking(String),
    /// What it thought is complete. `opaque` must be sent back with it, unchanged.
    Thought {
        /// The provider's own, such as a signature.
        opaque: Option<serde_json::Value>,
    },
    /// A tool is about to be called.
    CallBegun {
        /// Of this call, unique in the answer.
        id: String,
        /// The tool's, as the model has it.
        name: String,
    },
    /// More of a call's input, as JSON text.
    CallInput {
        /// Of which call.
        id: String,
        /// Some of it.
        delta: String,
    },
    /// A tool is called.
    Called(ToolCall),
    /// Nothing more comes.
    End(EndReason),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It is complete.
    Stop,
    /// It waits for what its tools answer.
    ToolCalls,
    /// It is as long as it may be.
    Length,
    /// The provider does not say the rest.
    ContentFilter,
    /// Something else.
    Other,
}

impl EndReason {
    /// What a server means by its reason, since some say "stop" where tools were called, or the other way round.
    fn with_calls(self, has_calls: bool) -> Self {
        match (self, has_calls) {
            (Self::Stop, true) => Self::ToolCalls,
            (Self::ToolCalls, false) => Self::Stop,
            (reason, _) => reason,
        }
    }
}
