//! Files of a workspace, for the user's view.

use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::Serialize;

use super::Result;

/// A stream of bytes to write into a sandbox.
pub type Content = BoxStream<'static, std::io::Result<Bytes>>;

/// One page of a directory, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileList {
    /// Entries of the page.
    pub entries: Vec<FileEntry>,
    /// Cursor of the next page, or `None` on the last one.
    pub next_cursor: Option<String>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// Last part of the path. Bytes that are not valid UTF-8 are replaced.
    pub name: String,
    /// Type of the entry. Links are not followed.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Length of a file.
    #[serde(rename = "size")]
    pub bytes: Option<u64>,
    /// Time of the last change of the content, by the sandbox's clock.
    pub modified_at: Option<Timestamp>,
}

/// Type of an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, whatever its target.
    Link,
    /// A socket, FIFO or device.
    Other,
}

/// A file that is read from a sandbox.
pub struct Download {
    /// Length, if known.
    pub bytes: Option<u64>,
    /// Content. If it breaks off, it returns an error, never an early end.
    pub content: BoxStream<'static, Result<Bytes>>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
