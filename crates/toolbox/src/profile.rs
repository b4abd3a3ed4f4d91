//! Names of the sets of tools.

use crate::Error;

/// A set of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// All tools of this project.
    #[default]
    Default,
    /// The nine tools of boxsh 4.1.
    Boxsh,
    /// The ten tools of sql-fs.
    SqlFs,
    /// The four tools of the crate `bash-tools` and its chat.
    Chat,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Default, Self::Boxsh, Self::SqlFs, Self::Chat];

    /// Name by which a host chooses the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Boxsh => "boxsh",
            Self::SqlFs => "sql-fs",
            Self::Chat => "chat",
        }
    }

    /// Returns the profile with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// The error for a call that names no sandbox, if its host does not either.
    pub(crate) fn no_sandbox(self) -> Error {
        match self {
            Self::Default => Error::NoSandbox,
            Self::Boxsh | Self::SqlFs | Self::Chat => Error::NoSession,
        }
    }
}
