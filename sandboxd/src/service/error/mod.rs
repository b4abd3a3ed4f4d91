//! Why a request fails: a refusal, a state or limit of the service, or an error of the engine, an agent or the store.

mod causes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use serde_json::json;
use thiserror::Error;

use crate::agent;
use crate::engine;
use crate::model::echo::Echo;
use crate::model::{PublicError, Refusal, SessionKey, StoreFault, limits};
use crate::store;

/// Why a request fails. The message is for the client. Its cause is for the log.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum Error {
    /// The request is refused, by the sandbox's agent or by the daemon in the same terms.
    #[error(transparent)]
    Refused(#[from] Refusal),

    /// The runtime does not exist.
    UnknownRuntime {
        /// As in the request.
        runtime: String,
    },
    /// The operator does not allow the image.
    ImageNotAllowed {
        /// As in the request.
        image: String,
    },
    /// The image is allowed but missing, and a pull failed.
    ImageUnavailable {
        /// As in the request.
        image: String,
        /// The engine's error.
        source: engine::Error,
    },
    /// The operator does not allow sandboxes with a network of their own.
    OpenNotAllowed,
    /// A sandbox with a container keeps the container's network.
    NetworkHeld,
    /// The daemon cannot publish ports on this host.
    NotPublished,
    /// A directory to replace is not empty.
    NotReplaced {
        /// As in the request.
        path: String,
    },

    /// Another wrapped server of the sandbox has the name.
    McpServerExists {
        /// As in the request.
        name: String,
    },
    /// The sandbox is that of a wrapped server.
    McpServerNested,
    /// The sandbox of a wrapped server was created for other variables.
    McpServerOutdated {
        /// The server's own.
        sandbox: SandboxId,
    },

    /// The client stopped sending standard input.
    StdinLate {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
    /// The body with standard input broke off.
    StdinCut {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
        /// The error of the body.
        source: std::io::Error,
    },
    /// The agent disconnected or failed while standard input was written.
    StdinBroken {
        /// Bytes of this request that the command is known to have taken.
        written_bytes: u64,
        /// The agent's error.
        source: agent::Error,
    },

    /// The sandbox is in use, and the request does not use `force`.
    InUse,
    /// The sandbox was to be deleted only if it is parked.
    NotParked,
    /// The sandbox's state changed repeatedly during the request.
    ConcurrentTransitions,
    /// The engine has not reported the sandbox's container since the daemon started.
    NotRestored,
    /// The sandbox's files are missing on the engine.
    Lost,
    /// The sandbox has a disk, and this daemon cannot use disks.
    NoDisks,
    /// The sandbox could not be created. All requests for its session get this error.
    CreateFailed(#[source] Arc<Error>),

    /// A session that is to get a fork has a sandbox.
    SessionTaken {
        /// Its key.
        session_key: SessionKey,
    },
    /// A restore of the sandbox's files was interrupted, or the fork that creates it is under way.
    Blocked,
    /// The snapshot is being restored, or another one is made from it.
    SnapshotInUse,
    /// Data of a snapshot is missing or damaged.
    SnapshotDamaged {
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Stored data is missing or damaged that the present files of a sandbox need, so no snapshot of them can be made.
    PresentDamaged {
        /// The last snapshot of the sandbox, if it is damaged.
        snapshot: Option<SnapshotId>,
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// As many imports or exports run as are possible at once.
    SnapshotsBusy {
        /// Which of them.
        what: &'static str,
        /// Maximum number.
        max: usize,
    },
    /// The stored snapshots have reached the maximum of their total size.
    SnapshotsFull {
        /// The maximum.
        max_bytes: u64,
    },
    /// A file is not a snapshot that can be imported.
    ImportRejected {
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store of snapshots is not open.
    SnapshotStoreClosed {
        /// Why.
        fault: StoreFault,
        /// The error of the store.
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    /// The store of snapshots cannot be used now.
    SnapshotStore {
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The maximum number of sandboxes runs.
    Full {
        /// Maximum number of running sandboxes.
        max: usize,
    },
    /// The engine's disk is nearly full.
    DiskShort {
        /// Free space.
        free_bytes: u64,
    },
    /// A wait expired. The command continues.
    WaitDeadline {
        /// As in the request.
        timeout_ms: u64,
    },

    /// The daemon is starting.
    NotReady {
        /// What it waits for.
        missing: &'static str,
    },
    /// The engine has none of the sandboxes in the database.
    OtherEngine {
        /// Number of sandboxes in the database.
        sandboxes: usize,
    },
    /// The database belongs to another instance key.
    OtherInstance {
        /// Instance in the database.
        recorded: String,
        /// Instance of the key.
        found: String,
    },
    /// Another daemon of this instance runs.
    AnotherDaemon,
    /// Another daemon of this instance was started after this one.
    Superseded,

    /// The engine failed. `causes` has the message of each of its errors.
    Engine(#[from] engine::Error),
    /// The engine did not apply the hardening, so the container was not used.
    NotHardened {
        /// What is missing.
        weakness: &'static str,
    },
    /// The agent failed, or is not connected.
    Agent {
        /// The agent's error.
        source: agent::Error,
    },
    /// The store failed.
    Store(#[from] store::Error),
    /// The store is unavailable, and the request needs a record first.
    HistoryUnwritten,
    /// The run dir cannot be used.
    RunDir {
        /// The system's error.
        source: std::io::Error,
    },
    /// The system provides no random numbers.
    Randomness {
        /// The system's error.
        source: getrandom::Error,
    },
    /// A task of the daemon panicked or was cancelled.
    Task {
        /// How it ended.
        source: tokio::task::JoinError,
    },
}

impl Error {
    /// The part of the error that clients see.
    pub fn to_public(&self) -> PublicError {
        match self {
            Self::Refused(refusal) => refusal.to_public(),

            Self::UnknownRuntime { runtime } => PublicError::new(
                ErrorCode::Refused,
                format!("the runtime {} is not offered, only node24 and python3.13", Echo(runtime)),
                json!({ "field": "runtime", "value": runtime }),
            ),
            Self::ImageNotAllowed { image } => PublicError::new(
                ErrorCode::Refused,
                format!("the image {} is not allowed here; see SANDBOXD_ALLOWED_IMAGES", Echo(image)),
                json!({ "field": "image", "value": image }),
            ),
            Self::ImageUnavailable { image, .. } => PublicError::new(
                ErrorCode::Refused,
                format!("the image {} is not on the engine and cannot be pulled", Echo(image)),
                json!({ "field": "image", "value": image }),
            ),
            Self::OpenNotAllowed => PublicError::new(
                ErrorCode::Forbidden,
                "the network mode `open` is not allowed here; SANDBOXD_ALLOW_OPEN_NETWORK=1 allows it",
                json!({ "field": "network.mode" }),
            ),
            Self::NetworkHeld => PublicError::new(
                ErrorCode::WrongState,
                "the network mode changes from or to `open` only while the sandbox is parked; park it first",
                json!({ "field": "network.mode" }),
            ),
            Self::NotPublished => PublicError::new(
                ErrorCode::Refused,
                "a port cannot be published here, because containers do not see the run dir; `style=gateway` works",
                json!({ "field": "style" }),
            ),
            Self::NotReplaced { path } => PublicError::new(
                ErrorCode::WrongState,
                format!("the directory {} is not empty; only an empty directory can be replaced", Echo(path)),
                json!({ "path": path }),
            ),

            Self::McpServerExists { name } => PublicError::new(
                ErrorCode::AlreadyExists,
                format!(
                    "another server is registered as {}; remove it first, or choose another name",
                    Echo(name)
                ),
                json!({ "field": "name" }),
            ),
            Self::McpServerOutdated { sandbox } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the sandbox of this server, {sandbox}, has other variables than the server; remove the server, \
                     which deletes that sandbox, and register it again"
                ),
                json!({ "sandboxId": sandbox }),
            ),
            Self::McpServerNested => PublicError::new(
                ErrorCode::Refused,
                "this sandbox belongs to a wrapped server; register servers with the sandbox that they belong to",
                json!({}),
            ),

            Self::StdinLate { written_bytes } => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!(
                    "nothing was sent for {:?}; {written_bytes} bytes were written",
                    limits::STDIN_SILENCE
                ),
                json!({ "field": "body", "writtenBytes": written_bytes }),
            ),
            Self::StdinCut { written_bytes, .. } => PublicError::new(
                ErrorCode::InvalidRequest,
                format!("the body could not be read to its end; {written_bytes} bytes were written"),
                json!({ "field": "body", "writtenBytes": written_bytes }),
            ),
            Self::StdinBroken { written_bytes, source } => PublicError::new(
                causes::agent_code(source),
                format!("the sandbox did not answer; at least {written_bytes} bytes were written"),
                json!({ "writtenBytes": written_bytes }),
            ),

            Self::InUse => PublicError::new(
                ErrorCode::WrongState,
                "a command or a program on a terminal runs in the sandbox; end it first, or park with `force`",
                json!({}),
            ),
            Self::NotParked => PublicError::new(
                ErrorCode::WrongState,
                "the sandbox is not parked, or a request is about to use it; it was not deleted",
                json!({}),
            ),
            Self::ConcurrentTransitions => PublicError::new(
                ErrorCode::Unavailable,
                "the sandbox is being parked, woken or deleted by other requests; try again",
                json!({}),
            ),
            Self::NotRestored => PublicError::new(
                ErrorCode::Unavailable,
                "the sandbox is not restored yet: the engine does not answer for its container; try again",
                json!({}),
            ),
            Self::Lost => PublicError::new(
                ErrorCode::WrongState,
                "the sandbox is lost: its files are missing on the engine; restore its volume or disk there, or delete the sandbox to create a new one",
                json!({ "state": "lost" }),
            ),
            Self::NoDisks => PublicError::new(
                ErrorCode::Unavailable,
                "the sandbox's disk cannot be used: disks do not work here any more",
                json!({}),
            ),
            Self::CreateFailed(error) => error.to_public(),

            Self::SessionTaken { session_key } => PublicError::new(
                ErrorCode::AlreadyExists,
                format!("the session {} already has a sandbox", Echo(session_key.as_str())),
                json!({ "field": "sessionKeys", "sessionKey": session_key.as_str() }),
            ),
            Self::Blocked => PublicError::new(
                ErrorCode::Unavailable,
                "a restore of the sandbox's files, or the fork that creates it, is not finished; try again",
                json!({}),
            ),
            Self::SnapshotInUse => PublicError::new(
                ErrorCode::WrongState,
                "the snapshot is being restored, or another one is made from it; try again",
                json!({}),
            ),
            Self::SnapshotDamaged { source } => {
                PublicError::new(ErrorCode::Refused, format!("the snapshot is damaged: {source}"), json!({}))
            }
            Self::PresentDamaged { snapshot: Some(snapshot), .. } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the last snapshot of the sandbox, {snapshot}, is damaged; run `sandboxd fsck`, and try again"
                ),
                json!({ "snapshotId": snapshot }),
            ),
            Self::PresentDamaged { snapshot: None, .. } => PublicError::new(
                ErrorCode::Refused,
                "stored data that the sandbox's files share with a snapshot is damaged; run `sandboxd fsck`, and try again",
                json!({}),
            ),
            Self::SnapshotsBusy { what, max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the limit of {max} {what} of snapshots at once is reached; try again"),
                json!({ "limit": what, "value": max }),
            ),
            Self::SnapshotsFull { max_bytes } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!(
                    "the stored snapshots have reached {} MiB, which SANDBOXD_SNAPSHOTS_MB allows; delete some",
                    max_bytes / (1024 * 1024)
                ),
                json!({ "limit": "snapshotBytes", "value": max_bytes }),
            ),
            Self::ImportRejected { source } => PublicError::new(
                ErrorCode::Refused,
                format!("the file was not imported: {source}"),
                json!({}),
            ),
            Self::SnapshotStore { .. } => PublicError::new(
                ErrorCode::Unavailable,
                "the store of snapshots cannot be used now",
                json!({ "reason": StoreFault::Unavailable.as_str() }),
            ),
            Self::SnapshotStoreClosed { fault, .. } => {
                PublicError::new(ErrorCode::Unavailable, fault.message(), json!({ "reason": fault.as_str() }))
            }

            Self::Full { max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("all {max} sandboxes are in use"),
                json!({ "maxConcurrent": max }),
            ),
            Self::DiskShort { free_bytes } => PublicError::new(
                ErrorCode::InsufficientStorage,
                format!(
                    "the engine's disk is nearly full, with {free_bytes} bytes free; the operator must free some"
                ),
                json!({ "freeBytes": free_bytes }),
            ),
            Self::WaitDeadline { timeout_ms } => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!("the command did not end within {timeout_ms} ms; it continues to run"),
                json!({}),
            ),

            Self::NotReady { missing } => PublicError::new(
                ErrorCode::Unavailable,
                format!("sandboxd is starting: {missing} is not ready"),
                json!({ "missing": missing }),
            ),
            Self::OtherEngine { sandboxes } => PublicError::new(
                ErrorCode::Unavailable,
                format!(
                    "this engine has none of the {sandboxes} sandboxes that the database lists, and no marker of this installation"
                ),
                json!({ "missing": "marker" }),
            ),
            Self::OtherInstance { recorded, found } => PublicError::new(
                ErrorCode::Unavailable,
                format!(
                    "the database belongs to the instance {recorded}, and instance.key is that of {found}"
                ),
                json!({}),
            ),
            Self::AnotherDaemon => PublicError::new(
                ErrorCode::Unavailable,
                "another sandboxd with this instance key uses this engine",
                json!({}),
            ),
            Self::Superseded => PublicError::new(
                ErrorCode::Unavailable,
                "another sandboxd with this instance key was started after this one, which no longer acts",
                json!({}),
            ),

            Self::Engine(error) => causes::engine_error(error),
            Self::NotHardened { weakness } => PublicError::new(
                ErrorCode::Internal,
                format!("the engine did not harden the container: {weakness}"),
                json!({}),
            ),
            Self::Agent { source } => {
                PublicError::new(causes::agent_code(source), "the sandbox did not answer", json!({}))
            }
            Self::Store(error) => {
                PublicError::new(causes::store_code(error), "the daemon's store cannot be used", json!({}))
            }
            Self::HistoryUnwritten => PublicError::new(
                ErrorCode::Unavailable,
                "the history of commands cannot be written",
                json!({}),
            ),
            Self::RunDir { .. } => {
                PublicError::new(ErrorCode::Internal, "the run dir cannot be used", json!({}))
            }
            Self::Randomness { .. } => {
                PublicError::new(ErrorCode::Internal, "the system provides no random numbers", json!({}))
            }
            Self::Task { .. } => {
                PublicError::new(ErrorCode::Internal, "a task of the daemon failed", json!({}))
            }
        }
    }
}
