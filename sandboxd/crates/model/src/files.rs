//! Files of a workspace, as the daemon passes them on.
//!
//! A path is bytes, because names are, and it is never looked into: where it leads is found out in the sandbox.

use bytes::Bytes;

/// A path as its caller gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(pub Bytes);

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Where to.
    pub target: FileTarget,
    /// All of it.
    pub content: Bytes,
}

/// Where a file is written to, and on what condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget {
    /// As the caller gave it.
    pub path: FilePath,
    /// Permission bits, 0 to 0o777; that of the file that is replaced, or 0o644, where there are none.
    pub mode: Option<u32>,
    /// It is written only if the file has this etag now; `*` is any.
    pub if_match: Option<String>,
    /// It is written only if there is nothing.
    pub if_absent: bool,
    /// The answer waits for the disk.
    pub durable: bool,
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Of the file as it is now.
    pub etag: String,
    /// Whether there was none before.
    pub created: bool,
    /// Its length.
    pub bytes: u64,
}

/// What something in a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// A fifo, socket or device.
    Other,
}

/// What is told of something in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// From the workspace; empty is the workspace itself.
    pub path: Bytes,
    /// What it is.
    pub kind: FileKind,
    /// Its length.
    pub size_bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Nanoseconds since the Unix epoch.
    pub modified_at_ns: i64,
    /// What a link says.
    pub target: Option<Bytes>,
    /// Of a regular file: changes whenever its content does.
    pub etag: Option<String>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteRange {
    /// From a byte to another, or to the end.
    Span {
        /// The first byte.
        from: u64,
        /// The last byte.
        to: Option<u64>,
    },
    /// So many bytes of the end.
    Last(u64),
}

impl ByteRange {
    /// Whether a file of so many bytes has none of it (RFC 9110 section 14.1.2).
    pub fn is_empty_in(self, size_bytes: u64) -> bool {
        match self {
            Self::Span { from, .. } => from >= size_bytes,
            Self::Last(last) => last == 0 || size_bytes == 0,
        }
    }
}

/// What is about to be read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// The whole file.
    pub info: FileInfo,
    /// Where what follows begins.
    pub offset: u64,
    /// How much follows.
    pub length: u64,
}

/// What part of a directory to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListWish {
    /// The directory.
    pub path: FilePath,
    /// Levels; 1 is the directory itself.
    pub depth: u32,
    /// Entries at most.
    pub limit: u32,
    /// The path of the entry before.
    pub after: Bytes,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePage {
    /// In the order of their paths.
    pub entries: Vec<FileInfo>,
    /// There are more behind the last one.
    pub more: bool,
}

/// A text to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextEdit {
    /// Must be there once.
    pub old_text: String,
    /// What comes in its place.
    pub new_text: String,
    /// It may be there more than once.
    pub replace_all: bool,
}

/// What edits did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edited {
    /// In unified format.
    pub diff: Bytes,
    /// From 1; 0 where nothing changed.
    pub first_changed_line: u64,
    /// Of the file as it is now.
    pub etag: String,
}

/// How an archive is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// What an archive brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Regular files.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// First: from here on nothing is missed.
    Ready,
    /// It is new.
    Created(Bytes),
    /// Its content or mode is another.
    Modified(Bytes),
    /// It is gone.
    Deleted(Bytes),
    /// It has another path.
    Moved {
        /// Where it was.
        from: Bytes,
        /// Where it is.
        to: Bytes,
    },
    /// Changes were lost, or not everything can be watched.
    Overflow,
    /// Last: what was watched is gone.
    Gone,
}

/// What to look for in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepWish {
    /// The directory.
    pub path: FilePath,
    /// A text, or a regular expression.
    pub query: String,
    /// It is a regular expression.
    pub regex: bool,
    /// Letters of either case are the same.
    pub case_insensitive: bool,
    /// Globs of which a path must fit one.
    pub include: Vec<String>,
    /// Results at most.
    pub max_results: u32,
    /// Also what `.gitignore` leaves out.
    pub include_ignored: bool,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepMatch {
    /// Of the file, from the workspace.
    pub path: Bytes,
    /// From 1.
    pub line: u64,
    /// Where in the line the first match begins, in bytes.
    pub column: u32,
    /// The line's beginning.
    pub text: Bytes,
}

/// What names to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobWish {
    /// The directory.
    pub path: FilePath,
    /// What a path must fit.
    pub pattern: String,
    /// What it must not fit, nor a directory above it.
    pub exclude: Vec<String>,
    /// Results at most.
    pub max_results: u32,
    /// Also what `.gitignore` leaves out.
    pub include_ignored: bool,
}

/// Why a search ended before it was through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It found as much as was wanted, or as an answer holds.
    Results,
    /// It took too long.
    Time,
    /// It saw too many files, names or levels.
    Files,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// In the order of their paths.
    pub results: Vec<T>,
    /// Why that may not be all.
    pub cut: Option<Cut>,
}
