//! Invitations.

use jiff::Timestamp;
use serde::Serialize;

use super::{Role, UserName};

/// An open invitation. The secret of its link is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    /// Id, which is not secret.
    pub id: String,
    /// Role of the new account.
    pub role: Role,
    /// The admin who made it. It ends when they are no longer an admin.
    pub created_by: UserName,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}
