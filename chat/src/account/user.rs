//! Users.

use std::fmt;
use std::str::FromStr;

use bash_tools::session::Subject;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{Role, UserName};

/// Id of a user: `usr_` and 32 hexadecimal digits. It is also the subject that their sandboxes belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct UserId(String);

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Id.
    pub id: UserId,
    /// Name to sign in with.
    pub name: UserName,
    /// Role.
    pub role: Role,
    /// Whether the account has a password. Without one, its user signs in with an identity provider.
    pub has_password: bool,
    /// When the account was made.
    pub created_at: Timestamp,
    /// Since when the account is disabled.
    pub disabled_at: Option<Timestamp>,
}

impl UserId {
    /// Creates a new id.
    pub fn random() -> Self {
        Self(format!("usr_{}", Uuid::new_v4().simple()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Subject that the user's sandboxes belong to.
    pub fn subject(&self) -> Subject {
        self.0.parse().expect("an id is short and visible ASCII")
    }
}

/// The text is not an id of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a user")]
pub struct BadUserId;

impl FromStr for UserId {
    type Err = BadUserId;

    fn from_str(text: &str) -> Result<Self, BadUserId> {
        let digits = text.strip_prefix("usr_").ok_or(BadUserId)?;
        let is_good = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_good { Ok(Self(text.to_owned())) } else { Err(BadUserId) }
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
