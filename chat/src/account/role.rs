//! Roles.

use serde::{Deserialize, Serialize};

/// What a user may do. Neither role sees the chats of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Manages accounts and invitations.
    Admin,
    /// Has chats.
    User,
}

impl Role {
    /// Name in the database and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }

    /// Returns the role of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Admin, Self::User].into_iter().find(|role| role.name() == name)
    }
}
