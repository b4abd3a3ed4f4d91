//! The bounds of what is read of a model's server, and of how long it may take.

use std::time::Duration;

/// Longest answer, as it comes over the wire. A token of a few characters comes in a chunk of some 300 bytes, so this is room for
/// the longest answers of today's models.
pub(super) const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Longest single event of an answer, and longest answer that comes in one piece. A server may send a call's whole input at once,
/// with each of its characters escaped.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Longest input of one tool call.
pub(super) const MAX_INPUT_BYTES: usize = 8 * 1024 * 1024;

/// Most tools that one answer may call.
pub(super) const MAX_CALLS: usize = 64;

/// Longest name of a tool, as a model may make it up.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// Longest id of a call that is kept; one that is longer gets another. OpenAI takes none back that is longer than this.
pub(super) const MAX_ID_BYTES: usize = 40;

/// What is read of a refusal.
pub(super) const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// What is passed on of a server's own words, in characters.
pub(super) const MAX_SAID_CHARS: usize = 500;

/// How long a connection may take to stand.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept: uvicorn, which vLLM is served by, hangs up after 5 s, and a request that crosses with
/// that on the way is lost.
pub(super) const IDLE: Duration = Duration::from_secs(4);

/// How long a server may take until its answer begins. Ollama first loads the model, and says nothing meanwhile.
pub(super) const BEGIN: Duration = Duration::from_secs(300);

/// How long a server may take to say why it refuses.
pub(super) const REFUSAL: Duration = Duration::from_secs(5);

/// How long a server may be silent in the middle of its answer.
pub(super) const SILENCE: Duration = Duration::from_secs(120);

/// How long a whole answer may take, however busy the server seems.
pub(super) const ANSWER: Duration = Duration::from_secs(3600);
