//! Why a request fails: a refusal, a state or limit of the service, or an error of the engine, an agent or the store.

mod bases;
mod causes;
mod mcp_servers;
mod ownership;
mod packages;
mod quotas;
mod repositories;
mod snapshots;
mod spec;
mod stdin;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

pub use self::bases::BaseFault;
pub use self::mcp_servers::McpServerError;
pub use self::ownership::OwnershipError;
pub use self::packages::PackageError;
pub use self::quotas::QuotaError;
pub use self::repositories::RepositoryError;
pub use self::snapshots::SnapshotError;
pub use self::spec::SpecError;
pub use self::stdin::StdinError;
use crate::agent;
use crate::audit;
use crate::engine;
use crate::jwt;
use crate::model::echo::Echo;
use crate::model::{PublicError, Refusal, UidSlot};
use crate::store;

/// Why a request fails. The message is for the client. Its cause is for the log.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum Error {
    /// The request is refused, by the sandbox's agent or by the daemon in the same terms.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Why snapshots cannot be made, restored, imported or deleted.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Why this daemon does not act on the engine.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// Why standard input was not written to its end.
    #[error(transparent)]
    Stdin(#[from] StdinError),
    /// Why a server cannot be wrapped.
    #[error(transparent)]
    McpServer(#[from] McpServerError),
    /// Why a repository cannot be used.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Why packages are not available.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// Why a sandbox cannot have what its request specifies.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Why a project's quotas do not permit the request.
    #[error(transparent)]
    Quota(#[from] QuotaError),

    /// The request needs the operator's token.
    OperatorOnly,
    /// A new token would permit more than the one that creates it, or expire later.
    TokenTooWide,
    /// The token is for one sandbox, and the request needs more.
    OneSandboxOnly,
    /// The code that calls a tool was run by another principal.
    NotTheCaller,
    /// The daemon cannot publish ports on this host.
    NotPublished,
    /// A directory to replace is not empty.
    NotReplaced {
        /// As in the request.
        path: String,
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
    /// The sandbox shares files with a snapshot, and cannot reach them.
    Base {
        /// Name of its base.
        base: String,
        /// What is wrong with the base.
        fault: BaseFault,
        /// The engine's error.
        source: engine::Error,
    },
    /// The sandbox could not be created. All requests for its session get this error.
    CreateFailed(#[source] Arc<Error>),

    /// The repository could not be fetched, or the packages. All requests that wait for it get this error.
    FetchFailed(#[source] Arc<Error>),

    /// The maximum number of sandboxes runs.
    Full {
        /// Maximum number of running sandboxes.
        max: usize,
    },
    /// Each sandbox has a user id, and none is free. The owner has no parked sandbox that could be deleted.
    NoUserId,
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
    /// The key set of JSON Web Tokens cannot be used.
    KeySet {
        /// Why.
        source: jwt::SourceError,
    },
    /// A route that starts commands is not one of those whose acts are recorded.
    Unrecorded,
    /// The audit record cannot be written, or read.
    Audit(#[from] audit::Error),
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
            Self::Snapshot(error) => error.to_public(),
            Self::Ownership(error) => error.to_public(),
            Self::Stdin(error) => error.to_public(),
            Self::McpServer(error) => error.to_public(),
            Self::Repository(error) => error.to_public(),
            Self::Package(error) => error.to_public(),
            Self::Spec(error) => error.to_public(),
            Self::Quota(error) => error.to_public(),

            Self::OperatorOnly => PublicError::new(
                ErrorCode::Forbidden,
                "only the operator's token can do this, because it concerns the whole daemon",
                json!({}),
            ),
            Self::TokenTooWide => PublicError::new(
                ErrorCode::Forbidden,
                "a token cannot permit more than the token that creates it, and cannot expire later",
                json!({}),
            ),
            Self::OneSandboxOnly => PublicError::new(
                ErrorCode::Forbidden,
                "the token is for one sandbox, and cannot create what does not belong to it",
                json!({}),
            ),
            Self::NotTheCaller => PublicError::new(
                ErrorCode::Forbidden,
                "only the token that runs the code can answer its calls",
                json!({}),
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
            Self::Base { base, fault, .. } => fault.to_public(base),
            Self::CreateFailed(error) | Self::FetchFailed(error) => error.to_public(),

            Self::Full { max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("all {max} sandboxes are in use"),
                json!({ "maxConcurrent": max }),
            ),
            Self::NoUserId => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!(
                    "the daemon keeps at most {} sandboxes, running or parked, and has no room for another; delete one first",
                    UidSlot::COUNT
                ),
                json!({ "maxSandboxes": UidSlot::COUNT }),
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
            Self::Unrecorded => {
                PublicError::new(ErrorCode::Internal, "the route is missing among recorded acts", json!({}))
            }
            Self::Audit(error) => PublicError::new(
                ErrorCode::AuditUnavailable,
                "the audit record cannot be written, so nothing was done that must be in it; the operator finds the cause in the daemon's log",
                json!({ "full": error.is_full() }),
            ),
            Self::RunDir { .. } => {
                PublicError::new(ErrorCode::Internal, "the run dir cannot be used", json!({}))
            }
            Self::KeySet { .. } => PublicError::new(
                ErrorCode::Internal,
                "the key set of JSON Web Tokens cannot be used",
                json!({}),
            ),
            Self::Randomness { .. } => {
                PublicError::new(ErrorCode::Internal, "the system provides no random numbers", json!({}))
            }
            Self::Task { .. } => {
                PublicError::new(ErrorCode::Internal, "a task of the daemon failed", json!({}))
            }
        }
    }
}
