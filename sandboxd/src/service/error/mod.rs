//! Why a request fails: a refusal, a state or limit of the service, or an error of the engine, an agent or the store.

mod causes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sandbox_api::ErrorCode;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::agent;
use crate::engine;
use crate::model::echo::Echo;
use crate::model::{Refusal, limits};
use crate::store;

/// Why a request fails. The message is for the client. Its cause is for the log.
#[derive(Debug, Error)]
pub enum Error {
    /// The request is refused, by the sandbox's agent or by the daemon in the same terms.
    #[error(transparent)]
    Refused(#[from] Refusal),

    /// The runtime does not exist.
    #[error("the runtime {runtime} is not offered, only node24 and python3.13", runtime = Echo(.runtime))]
    UnknownRuntime {
        /// As in the request.
        runtime: String,
    },
    /// The operator does not allow the image.
    #[error("the image {image} is not allowed here; see SANDBOXD_ALLOWED_IMAGES", image = Echo(.image))]
    ImageNotAllowed {
        /// As in the request.
        image: String,
    },
    /// The image is allowed but missing, and a pull failed.
    #[error("the image {image} is not on the engine and cannot be pulled", image = Echo(.image))]
    ImageUnavailable {
        /// As in the request.
        image: String,
        /// The engine's error.
        source: engine::Error,
    },
    /// The operator does not allow sandboxes with a network of their own.
    #[error("the network mode `open` is not allowed here; SANDBOXD_ALLOW_OPEN_NETWORK=1 allows it")]
    OpenNotAllowed,
    /// A sandbox with a container keeps the container's network.
    #[error("the network mode changes from or to `open` only while the sandbox is parked; park it first")]
    NetworkHeld,
    /// The daemon cannot publish ports on this host.
    #[error(
        "a port cannot be published here, because containers do not see the run dir; `style=gateway` works"
    )]
    NotPublished,
    /// A directory to replace is not empty.
    #[error("the directory {path} is not empty; only an empty directory can be replaced", path = Echo(.path))]
    NotReplaced {
        /// As in the request.
        path: String,
    },

    /// The client stopped sending standard input.
    #[error("nothing was sent for {:?}; {written_bytes} bytes were written", limits::STDIN_SILENCE)]
    StdinLate {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
    /// The body with standard input broke off.
    #[error("the body could not be read to its end; {written_bytes} bytes were written")]
    StdinCut {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
        /// The error of the body.
        source: std::io::Error,
    },
    /// The agent disconnected or failed while standard input was written.
    #[error("the sandbox did not answer; at least {written_bytes} bytes were written")]
    StdinBroken {
        /// Bytes of this request that the command is known to have taken.
        written_bytes: u64,
        /// The agent's error.
        source: agent::Error,
    },

    /// The sandbox is in use, and the request does not use `force`.
    #[error("a command or a program on a terminal runs in the sandbox; end it first, or park with `force`")]
    InUse,
    /// The sandbox was to be deleted only if it is parked.
    #[error("the sandbox is not parked, or a request is about to use it; it was not deleted")]
    NotParked,
    /// The sandbox's state changed repeatedly during the request.
    #[error("the sandbox is being parked, woken or deleted by other requests; try again")]
    ConcurrentTransitions,
    /// The engine has not reported the sandbox's container since the daemon started.
    #[error("the sandbox is not restored yet: the engine does not answer for its container; try again")]
    NotRestored,
    /// The sandbox's files are missing on the engine.
    #[error(
        "the sandbox is lost: its files are missing on the engine; restore its volume or disk there, or delete the sandbox to create a new one"
    )]
    Lost,
    /// The sandbox has a disk, and this daemon cannot use disks.
    #[error("the sandbox's disk cannot be used: disks do not work here any more")]
    NoDisks,
    /// The sandbox could not be created. All requests for its session get this error.
    #[error("{0}")]
    CreateFailed(#[source] Arc<Error>),

    /// The maximum number of sandboxes runs.
    #[error("all {max} sandboxes are in use")]
    Full {
        /// Maximum number of running sandboxes.
        max: usize,
    },
    /// The engine's disk is nearly full.
    #[error("the engine's disk is nearly full, with {free_bytes} bytes free; its operator has to free some")]
    DiskShort {
        /// Free space.
        free_bytes: u64,
    },
    /// A wait expired. The command continues.
    #[error("the command did not end within {timeout_ms} ms; it continues to run")]
    WaitDeadline {
        /// As in the request.
        timeout_ms: u64,
    },

    /// The daemon is starting.
    #[error("sandboxd is starting: {missing} is not ready")]
    NotReady {
        /// What it waits for.
        missing: &'static str,
    },
    /// The engine has none of the sandboxes in the database.
    #[error(
        "this engine has none of the {sandboxes} sandboxes that the database lists, and no marker of this installation"
    )]
    OtherEngine {
        /// Number of sandboxes in the database.
        sandboxes: usize,
    },
    /// The database belongs to another instance key.
    #[error("the database belongs to the instance {recorded}, and instance.key is that of {found}")]
    OtherInstance {
        /// Instance in the database.
        recorded: String,
        /// Instance of the key.
        found: String,
    },
    /// Another daemon of this instance runs.
    #[error("another sandboxd with this instance key uses this engine")]
    AnotherDaemon,
    /// Another daemon of this instance was started after this one.
    #[error("another sandboxd with this instance key was started after this one, which no longer acts")]
    Superseded,

    /// The engine failed. `causes` has the message of each of its errors.
    #[error("{}", causes::engine_facts(.0).1)]
    Engine(#[from] engine::Error),
    /// The engine did not apply the hardening, so the container was not used.
    #[error("the engine did not harden the container: {weakness}")]
    NotHardened {
        /// What is missing.
        weakness: &'static str,
    },
    /// The agent failed, or is not connected.
    #[error("the sandbox did not answer")]
    Agent {
        /// The agent's error.
        source: agent::Error,
    },
    /// The store failed.
    #[error("the daemon's store cannot be used")]
    Store(#[from] store::Error),
    /// The store is unavailable, and the request needs a record first.
    #[error("the history of commands cannot be written")]
    HistoryUnwritten,
    /// The run dir cannot be used.
    #[error("the run dir cannot be used")]
    RunDir {
        /// The system's error.
        source: std::io::Error,
    },
    /// The system provides no random numbers.
    #[error("the system provides no random numbers")]
    Randomness {
        /// The system's error.
        source: getrandom::Error,
    },
    /// A task of the daemon panicked or was cancelled.
    #[error("a task of the daemon failed")]
    Task {
        /// How it ended.
        source: tokio::task::JoinError,
    },
}

impl Error {
    /// Code and details of the response, which are for programs.
    fn facts(&self) -> (ErrorCode, Value) {
        match self {
            Self::Refused(refusal) => refusal.facts(),

            Self::UnknownRuntime { runtime } => {
                (ErrorCode::Refused, json!({ "field": "runtime", "value": runtime }))
            }
            Self::ImageNotAllowed { image } | Self::ImageUnavailable { image, .. } => {
                (ErrorCode::Refused, json!({ "field": "image", "value": image }))
            }
            Self::OpenNotAllowed => (ErrorCode::Forbidden, json!({ "field": "network.mode" })),
            Self::NetworkHeld => (ErrorCode::WrongState, json!({ "field": "network.mode" })),
            Self::NotPublished => (ErrorCode::Refused, json!({ "field": "style" })),
            Self::NotReplaced { path } => (ErrorCode::WrongState, json!({ "path": path })),

            Self::StdinLate { written_bytes } => {
                (ErrorCode::DeadlineExceeded, json!({ "field": "body", "writtenBytes": written_bytes }))
            }
            Self::StdinCut { written_bytes, .. } => {
                (ErrorCode::InvalidRequest, json!({ "field": "body", "writtenBytes": written_bytes }))
            }
            Self::StdinBroken { written_bytes, source } => {
                (causes::agent_code(source), json!({ "writtenBytes": written_bytes }))
            }

            Self::InUse | Self::NotParked => (ErrorCode::WrongState, json!({})),
            Self::ConcurrentTransitions | Self::NotRestored => (ErrorCode::Unavailable, json!({})),
            Self::Lost => (ErrorCode::WrongState, json!({ "state": "lost" })),
            Self::NoDisks => (ErrorCode::Unavailable, json!({})),
            Self::CreateFailed(error) => error.facts(),

            Self::Full { max } => (ErrorCode::CapacityExhausted, json!({ "maxConcurrent": max })),
            Self::DiskShort { free_bytes } => {
                (ErrorCode::InsufficientStorage, json!({ "freeBytes": free_bytes }))
            }
            Self::WaitDeadline { .. } => (ErrorCode::DeadlineExceeded, json!({})),

            Self::NotReady { missing } => (ErrorCode::Unavailable, json!({ "missing": missing })),
            Self::OtherEngine { .. } => (ErrorCode::Unavailable, json!({ "missing": "marker" })),
            Self::OtherInstance { .. } | Self::AnotherDaemon | Self::Superseded => {
                (ErrorCode::Unavailable, json!({}))
            }

            Self::Engine(error) => (causes::engine_facts(error).0, json!({})),
            Self::Agent { source } => (causes::agent_code(source), json!({})),
            Self::Store(error) => (causes::store_code(error), json!({})),
            Self::HistoryUnwritten => (ErrorCode::Unavailable, json!({})),
            Self::NotHardened { .. } | Self::RunDir { .. } | Self::Randomness { .. } | Self::Task { .. } => {
                (ErrorCode::Internal, json!({}))
            }
        }
    }

    /// Code of the response.
    pub fn code(&self) -> ErrorCode {
        self.facts().0
    }

    /// Details of the response.
    pub fn details(&self) -> Map<String, Value> {
        match self.facts().1 {
            Value::Object(details) => details,
            _ => Map::new(),
        }
    }

    /// Seconds after which the client may retry.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.code().is_retryable().then_some(limits::RETRY_AFTER_SECONDS)
    }
}
