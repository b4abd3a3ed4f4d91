//! Files of a workspace, as a person looks at them.

use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::Serialize;

use super::Result;

/// Bytes on their way into a sandbox, as they come.
pub type Content = BoxStream<'static, std::io::Result<Bytes>>;

/// A page of what is in a directory, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileList {
    /// What is in it.
    pub entries: Vec<FileEntry>,
    /// Where the next page begins; none where this is the last.
    pub next_cursor: Option<String>,
}

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// The last part of its path. What is no UTF-8 is told with replacement characters.
    pub name: String,
    /// What it is, links not followed.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Length of a file.
    #[serde(rename = "size")]
    pub bytes: Option<u64>,
    /// When its content changed last, by the sandbox's clock.
    pub modified_at: Option<Timestamp>,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link,
    /// A socket, a fifo or a device.
    Other,
}

/// A file on its way out of a sandbox.
pub struct Download {
    /// Its length, where that is known beforehand.
    pub bytes: Option<u64>,
    /// What is in it. One that breaks off is an error and never looks like the end.
    pub content: BoxStream<'static, Result<Bytes>>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
