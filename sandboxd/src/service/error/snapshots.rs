//! Why snapshots cannot be made, restored, imported or deleted.

use std::sync::Arc;

use sandbox_api::{ErrorCode, SnapshotId};
use serde_json::json;
use thiserror::Error;

use crate::model::echo::Echo;
use crate::model::{PublicError, SessionKey, StoreFault};

/// Why snapshots cannot be made, restored, imported or deleted.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum SnapshotError {
    /// A session that is to get a fork has a sandbox.
    SessionTaken {
        /// Its key.
        session_key: SessionKey,
    },
    /// A restore of the sandbox's files was interrupted, or the fork that creates it is under way.
    Blocked,
    /// The snapshot is being restored, or another one is made from it.
    InUse,
    /// Data of a snapshot is missing or damaged.
    Damaged {
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
    Busy {
        /// Which of them.
        what: &'static str,
        /// Maximum number.
        max: usize,
    },
    /// The stored snapshots have reached the maximum of their total size.
    Full {
        /// The maximum.
        max_bytes: u64,
    },
    /// The disk of the stored snapshots is full.
    NoSpace {
        /// The error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file is not a snapshot that can be imported.
    ImportRejected {
        /// What is wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store of snapshots is not open.
    StoreClosed {
        /// Why.
        fault: StoreFault,
        /// The error of the store.
        source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    /// The store of snapshots cannot be used now.
    StoreFailed {
        /// Its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SnapshotError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
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
            Self::InUse => PublicError::new(
                ErrorCode::WrongState,
                "the snapshot is being restored, or another one is made from it; try again",
                json!({}),
            ),
            Self::Damaged { source } => {
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
            Self::Busy { what, max } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the limit of {max} {what} of snapshots at once is reached; try again"),
                json!({ "limit": what, "value": max }),
            ),
            Self::Full { max_bytes } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!(
                    "the stored snapshots have reached {} MiB, which SANDBOXD_SNAPSHOTS_MB allows; delete some",
                    max_bytes / (1024 * 1024)
                ),
                json!({ "limit": "snapshotBytes", "value": max_bytes }),
            ),
            Self::NoSpace { .. } => PublicError::new(
                ErrorCode::InsufficientStorage,
                "the disk of the stored snapshots is full; the operator must free some space",
                json!({}),
            ),
            Self::ImportRejected { source } => PublicError::new(
                ErrorCode::Refused,
                format!("the file was not imported: {source}"),
                json!({}),
            ),
            Self::StoreClosed { fault, .. } => {
                PublicError::new(ErrorCode::Unavailable, fault.message(), json!({ "reason": fault.as_str() }))
            }
            Self::StoreFailed { .. } => PublicError::new(
                ErrorCode::Unavailable,
                "the store of snapshots cannot be used now",
                json!({ "reason": StoreFault::Unavailable.as_str() }),
            ),
        }
    }

    /// What an operator can do about it, if that is known.
    pub(super) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::StoreClosed { fault, .. } => fault.advice(),
            _ => None,
        }
    }
}
