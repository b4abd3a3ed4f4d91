//! Limits of what is read from a model's server, and of how long it may take.

use std::time::Duration;

/// Maximum length of an answer on the wire. A token of a few characters takes a chunk of some 300 bytes, so this is
/// enough for the longest answers of today's models.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Maximum length of a single event, and of an answer that is not a stream. A server may send a call's whole input at
/// once, with each character escaped.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum length of the input of one tool call.
pub(super) const MAX_INPUT_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of tool calls in one answer.
pub(super) const MAX_CALLS: usize = 64;

/// Maximum length of a tool's name, which a model may invent.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// Maximum length of a call's id. A longer one is replaced. OpenAI accepts no longer one back.
pub(super) const MAX_ID_BYTES: usize = 40;

/// Maximum amount that is read of an error response.
pub(super) const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// Maximum length of a server's own message, in characters.
pub(super) const MAX_MESSAGE_CHARS: usize = 500;

/// Time limit for connecting.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept. uvicorn, which serves vLLM, closes it after 5 s, and a request that crosses
/// with the close is lost.
pub(super) const IDLE: Duration = Duration::from_secs(4);

/// Time limit until an answer begins. Ollama loads the model first, and sends nothing meanwhile.
pub(super) const BEGIN: Duration = Duration::from_secs(300);

/// Time limit for the body of an error response.
pub(super) const REFUSAL: Duration = Duration::from_secs(5);

/// Maximum silence in the middle of an answer.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// Time limit for a whole answer.
pub(super) const ANSWER: Duration = Duration::from_secs(3600);
