//! Files on their way into a workspace.

use bytes::Bytes;

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// As the caller gave it; resolved inside the sandbox and nowhere else.
    pub path: String,
    /// Permission bits, 0 to 0o777.
    pub mode: Option<u32>,
    /// All of it.
    pub content: Bytes,
}
