//! Models: requests, and answers piece by piece.
//!
//! Two APIs, OpenAI's chat completions and Anthropic's messages, behind one trait. A client knows its provider's
//! format and nothing about chats, tools or browsers. The servers' responses are not trusted: everything in them has
//! a limit.

mod answer;
mod anthropic;
mod calls;
mod conversation;
mod error;
mod limits;
mod messages;
mod opaque;
mod openai;
mod server;
mod sse;

use futures::stream::BoxStream;

pub use anthropic::Anthropic;
pub use conversation::{Block, Request, Thinking, ToolCall, ToolResult, Turn};
pub use error::{BadAddress, Error, Result};
pub use openai::OpenAi;

/// A client for models.
pub trait ModelClient: Send + Sync {
    /// Sends a request and streams the answer. The last item is [`Piece::End`] or an error. Dropping the stream ends
    /// the request.
    fn stream(&self, request: Request) -> BoxStream<'static, Result<Piece>>;
}

/// A piece of a model's answer, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// A block of reasoning is complete. `opaque` must be sent back with it, unchanged.
    Thought {
        /// Data of the provider, such as a signature.
        opaque: Option<serde_json::Value>,
    },
    /// A tool call begins.
    CallBegun {
        /// Id of the call, unique in the answer.
        id: String,
        /// Name of the tool as the model wrote it.
        name: String,
    },
    /// More of a call's input, as JSON text.
    CallInput {
        /// Id of the call.
        id: String,
        /// Part of the input.
        delta: String,
    },
    /// A tool call is complete.
    Called(ToolCall),
    /// The end of the answer.
    End(EndReason),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It is complete.
    Stop,
    /// It waits for the results of its tools.
    ToolCalls,
    /// It reached the maximum length.
    Length,
    /// The provider blocked the rest.
    ContentFilter,
    /// Another reason.
    Other,
}

impl EndReason {
    /// Corrects the server's reason. Some send "stop" although tools were called, or the other way round.
    fn with_calls(self, has_calls: bool) -> Self {
        match (self, has_calls) {
            (Self::Stop, true) => Self::ToolCalls,
            (Self::ToolCalls, false) => Self::Stop,
            (reason, _) => reason,
        }
    }
}
