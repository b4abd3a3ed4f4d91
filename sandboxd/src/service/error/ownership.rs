//! Why this daemon does not act on the engine.

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use crate::model::PublicError;

/// Why this daemon does not act on the engine.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum OwnershipError {
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
}

impl OwnershipError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
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
        }
    }

    /// What an operator can do about it, if that is known.
    pub(super) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::OtherEngine { .. } => Some(
                "mount the engine's data root and start again; if its files are permanently lost, `sandboxd accept-engine` keeps the sandboxes as lost and lets the daemon start",
            ),
            Self::OtherInstance { .. } => Some(
                "restore the instance.key that belongs to the database, or move the database away to take the sandboxes back from the engine's labels",
            ),
            Self::AnotherDaemon => Some(
                "stop that daemon, which may run on another machine or with a copy of this state dir; each installation needs a key of its own",
            ),
            Self::Superseded => None,
        }
    }
}
