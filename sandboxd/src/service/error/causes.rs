//! Errors of the engine, the agents and the store: what a client sees of them, whether a retry helps, and what an
//! operator can do.

use sandbox_api::ErrorCode;
use serde_json::json;

use super::Error;
use crate::agent;
use crate::audit;
use crate::engine::{self, DiskFault};
use crate::model::{FieldError, PublicError, Refusal};
use crate::store;

/// The part of an engine's error that clients see. The error itself is only logged.
pub(super) fn engine_error(error: &engine::Error) -> PublicError {
    let (code, message) = match error {
        engine::Error::ImageMissing { image } => {
            (ErrorCode::Unavailable, format!("the image {image} is missing on the engine"))
        }
        engine::Error::Conflict { .. } => {
            (ErrorCode::AlreadyExists, "the engine has something else of this name".into())
        }
        engine::Error::Malformed { .. } => {
            (ErrorCode::Unavailable, "the engine's answer cannot be read".into())
        }
        engine::Error::Refused { .. } => {
            (ErrorCode::Unavailable, "the engine rejected a request of sandboxd".into())
        }
        engine::Error::Disk { source, .. } => {
            let code = match source {
                DiskFault::Full(_) => ErrorCode::InsufficientStorage,
                // A disk that cannot be used now still exists.
                _ => ErrorCode::Unavailable,
            };
            (code, format!("the workspace's disk cannot be used: {source}"))
        }
        error if error.is_unavailable() => (ErrorCode::Unavailable, "the engine does not answer".into()),
        error if error.is_temporary() => (ErrorCode::Unavailable, "the engine failed".into()),
        _ => (ErrorCode::Internal, "the engine failed".into()),
    };
    PublicError::new(code, message, json!({}))
}

pub(super) fn agent_code(error: &agent::Error) -> ErrorCode {
    match error {
        agent::Error::NotConnected { .. } | agent::Error::Broken { .. } | agent::Error::Outdated => {
            ErrorCode::Unavailable
        }
        agent::Error::Deadline { .. } => ErrorCode::DeadlineExceeded,
        // `From` turns a refusal into `Error::Refused`, so none gets here.
        agent::Error::Failed { .. } | agent::Error::Malformed { .. } | agent::Error::Refused(_) => {
            ErrorCode::Internal
        }
    }
}

pub(super) fn store_code(error: &store::Error) -> ErrorCode {
    match error.kind() {
        store::ErrorKind::Full => ErrorCode::InsufficientStorage,
        kind if kind.is_unavailable() => ErrorCode::Unavailable,
        _ => ErrorCode::Internal,
    }
}

impl From<agent::Error> for Error {
    fn from(error: agent::Error) -> Self {
        match error {
            agent::Error::Refused(refusal) => refusal.into(),
            source => Self::Agent { source },
        }
    }
}

impl From<FieldError> for Error {
    fn from(fault: FieldError) -> Self {
        Refusal::from(fault).into()
    }
}

impl Error {
    /// Whether the connection to the sandbox ended during the request or before it.
    pub fn is_interrupted(&self) -> bool {
        match self {
            Self::Agent { source } => source.is_broken(),
            Self::Stdin(error) => error.is_interrupted(),
            Self::ConcurrentTransitions => true,
            _ => false,
        }
    }

    /// Whether a start that fails with this error is retried, because the cause may disappear while the daemon runs.
    pub(in crate::service) fn is_retried_at_start(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retried_at_start(),
            Self::Store(error) => error.is_unavailable(),
            Self::Agent { source } => agent_code(source) != ErrorCode::Internal,
            _ => false,
        }
    }

    /// What an operator can do about it, if that is known.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Engine(error) => error.advice(),
            Self::Store(error) => error.advice(),
            Self::Audit(audit::Error::InUse { .. }) => {
                Some("give each daemon a directory of its own in SANDBOXD_AUDIT_DIR")
            }
            Self::Audit(audit::Error::Io { .. }) => Some(
                "the directory of the audit record must be writable for the daemon, and neither it nor a file in it may be a symbolic link; see SANDBOXD_AUDIT_DIR",
            ),
            Self::Snapshot(error) => error.advice(),
            Self::Ownership(error) => error.advice(),
            Self::Base { fault, .. } => Some(fault.advice()),
            _ => None,
        }
    }
}
