//! Whose chats are meant.

use bash_tools::session::Subject;

use super::UserId;

/// The owner of chats. The store returns chats only for an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Everyone with access to an app without accounts.
    Everyone,
    /// A user.
    User(UserId),
}

impl Owner {
    /// The owner's text in the database.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Everyone => "",
            Self::User(id) => id.as_str(),
        }
    }

    /// Subject that the sandboxes of new chats belong to.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Self::Everyone => None,
            Self::User(id) => Some(id.subject()),
        }
    }
}
