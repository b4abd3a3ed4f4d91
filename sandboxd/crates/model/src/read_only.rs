//! Writes that a read-only command was refused.

use sandbox_api::command::ReadOnlyViolation as Wire;

/// A write to the workspace that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnlyViolation {
    /// What was attempted.
    pub operation: WriteOperation,
    /// Where, relative to the workspace.
    pub path: String,
}

/// A way to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOperation {
    /// Opening an existing file for writing, or truncating it.
    Write,
    /// Creating a file, a directory or a symbolic link.
    Create,
    /// Removing a name.
    Delete,
    /// Moving to or from the workspace, or inside.
    Rename,
    /// Creating a hard link in the workspace or of one of its files.
    Link,
}

impl WriteOperation {
    /// All ways.
    pub const ALL: [Self; 5] = [Self::Write, Self::Create, Self::Delete, Self::Rename, Self::Link];

    /// The name in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Link => "link",
        }
    }
}

impl From<ReadOnlyViolation> for Wire {
    fn from(ReadOnlyViolation { operation, path }: ReadOnlyViolation) -> Self {
        Self { operation: operation.as_str().to_owned(), path }
    }
}
