//! Why a server cannot be wrapped.

use sandbox_api::{ErrorCode, SandboxId};
use serde_json::json;
use thiserror::Error;

use crate::model::PublicError;
use crate::model::echo::Echo;

/// Why a server cannot be wrapped.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum McpServerError {
    /// Another wrapped server of the sandbox has the name.
    Exists {
        /// As in the request.
        name: String,
    },
    /// The sandbox is that of a wrapped server.
    Nested,
    /// The sandbox of a wrapped server was created for other variables.
    Outdated {
        /// The server's own.
        sandbox: SandboxId,
    },
}

impl McpServerError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Exists { name } => PublicError::new(
                ErrorCode::AlreadyExists,
                format!(
                    "another server is registered as {}; remove it first, or choose another name",
                    Echo(name)
                ),
                json!({ "field": "name" }),
            ),
            Self::Nested => PublicError::new(
                ErrorCode::Refused,
                "this sandbox belongs to a wrapped server; register servers with the sandbox that they belong to",
                json!({}),
            ),
            Self::Outdated { sandbox } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the sandbox of this server, {sandbox}, has other variables than the server; remove the server, \
                     which deletes that sandbox, and register it again"
                ),
                json!({ "sandboxId": sandbox }),
            ),
        }
    }
}
