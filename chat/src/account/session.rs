//! Sessions: who is signed in, and where.

use jiff::Timestamp;
use serde::Serialize;

use super::User;

/// A session, for the list of a user's sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Id, which is not secret.
    pub id: String,
    /// What the browser calls itself, if it does.
    pub agent: Option<String>,
    /// When the user signed in.
    pub created_at: Timestamp,
    /// Last request, to about a minute.
    pub used_at: Timestamp,
}

/// The user of a request, and the session that it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Id of the session.
    pub session: String,
    /// The user, who is not disabled.
    pub user: User,
}
