//! Files of a workspace.
//!
//! A path is bytes, because file names are. The daemon never resolves it: the agent does that in the sandbox.

use bytes::Bytes;

/// A path as the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(pub Bytes);

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Target of the write.
    pub target: FileTarget,
    /// Content of the file.
    pub content: Bytes,
}

/// Target of a write, and the conditions of the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget {
    /// Path as the caller gave it.
    pub path: FilePath,
    /// Permission bits, 0 to 0o777. `None` keeps those of the file that is replaced, or uses 0o644 for a new file.
    pub mode: Option<u32>,
    /// Writes only if the file has this etag. `*` matches any.
    pub if_match: Option<String>,
    /// Writes only if there is no file.
    pub if_absent: bool,
    /// Waits until the data is on disk.
    pub durable: bool,
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Etag of the file after the write.
    pub etag: String,
    /// Whether the write created the file.
    pub created: bool,
    /// Length of the file.
    pub bytes: u64,
}

/// Type of an entry in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, whatever its target.
    Symlink,
    /// A fifo, socket or device.
    Other,
}

/// Metadata of an entry in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Path relative to the workspace. Empty for the workspace itself.
    pub path: Bytes,
    /// Type of the entry.
    pub kind: FileKind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Time of the last change, in nanoseconds since the Unix epoch.
    pub modified_at_ns: i64,
    /// Target of a link.
    pub target: Option<Bytes>,
    /// Etag of a regular file. Changes whenever the content does.
    pub etag: Option<String>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// From one byte to another, or to the end.
    Span {
        /// Offset of the first byte.
        from: u64,
        /// Offset of the last byte.
        to: Option<u64>,
    },
    /// This many bytes at the end.
    Last(u64),
}

impl ByteRange {
    /// Whether a file of this size has no byte of the range (RFC 9110 section 14.1.2).
    pub fn is_empty_in(self, size_bytes: u64) -> bool {
        match self {
            Self::Span { from, .. } => from >= size_bytes,
            Self::Last(last) => last == 0 || size_bytes == 0,
        }
    }
}

/// Precedes the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// Metadata of the whole file.
    pub info: FileInfo,
    /// Offset of the first byte that follows.
    pub offset: u64,
    /// Number of bytes that follow.
    pub length: u64,
}

/// Options of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// The directory to list.
    pub path: FilePath,
    /// Number of levels. 1 lists the directory itself.
    pub depth: u32,
    /// Maximum number of entries.
    pub limit: u32,
    /// Path of the last entry of the previous page.
    pub after: Bytes,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePage {
    /// Entries in the order of their paths.
    pub entries: Vec<FileInfo>,
    /// Whether more entries follow.
    pub more: bool,
}

/// Replacements of text in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdits {
    /// The replacements.
    pub edits: Vec<TextEdit>,
    /// Whether each looks for its text in the file as it was, instead of the result of the one before.
    pub all_on_original: bool,
}

/// A replacement of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// Text to replace. Must occur once.
    pub old_text: String,
    /// Text to insert.
    pub new_text: String,
    /// Whether the text may occur more than once.
    pub replace_all: bool,
}

/// Result of edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edited {
    /// Changes in unified format.
    pub diff: Bytes,
    /// First changed line, counted from 1. 0 if nothing changed.
    pub first_changed_line: u64,
    /// Etag of the file after the edits.
    pub etag: String,
}

/// Compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Result of unpacking an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of regular files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// A change that a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// First: every later change is reported.
    Ready,
    /// An entry was created.
    Created(Bytes),
    /// The content or mode of an entry changed.
    Modified(Bytes),
    /// An entry was deleted.
    Deleted(Bytes),
    /// An entry was moved.
    Moved {
        /// Old path.
        from: Bytes,
        /// New path.
        to: Bytes,
    },
    /// Changes were lost, or there is more than can be watched.
    Overflow,
    /// Last: the watched entry is gone.
    Gone,
}

/// Options of a search in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepOptions {
    /// Directory to search.
    pub path: FilePath,
    /// Text or regular expression to find.
    pub query: String,
    /// Whether the query is a regular expression.
    pub regex: bool,
    /// Whether upper and lower case match each other.
    pub case_insensitive: bool,
    /// Globs, one of which the path of a file must match.
    pub include: Vec<String>,
    /// Maximum number of results.
    pub max_results: u32,
    /// Whether to include what `.gitignore` excludes.
    pub include_ignored: bool,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    /// Path of the file, relative to the workspace.
    pub path: Bytes,
    /// Line number, counted from 1.
    pub line: u64,
    /// Offset of the first match in the line, in bytes.
    pub column: u32,
    /// Beginning of the line.
    pub text: Bytes,
}

/// Options of a search for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobOptions {
    /// Directory to search.
    pub path: FilePath,
    /// Glob that a path must match.
    pub pattern: String,
    /// Globs that neither the path nor a directory above it may match.
    pub exclude: Vec<String>,
    /// Maximum number of results.
    pub max_results: u32,
    /// Whether to include what `.gitignore` excludes.
    pub include_ignored: bool,
}

/// Why a search ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncatedBy {
    /// The maximum number of results was reached, or the response was full.
    Results,
    /// The time limit was reached.
    Time,
    /// Too many files, names or levels were visited.
    Files,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// Results in the order of their paths.
    pub results: Vec<T>,
    /// Why there may be more results.
    pub truncated_by: Option<TruncatedBy>,
}
