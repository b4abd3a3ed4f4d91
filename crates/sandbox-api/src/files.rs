//! Files of the workspace: as the original client writes and reads them, and everything else.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object;

/// `POST …/files:write`: all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WriteFiles {
    /// At least one.
    #[serde(deserialize_with = "object::each")]
    pub files: Vec<FileToWrite>,
}

/// One file of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileToWrite {
    /// Under the workspace, or relative to it.
    pub path: String,
    /// The content in base64 (RFC 4648 section 4).
    pub content_base64: String,
    /// Permission bits as a number, 0 to 511 (0o777); without it those of the file that is replaced, or 0o644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// `GET …/files:read`: the file, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileRead {
    /// Whether the file exists.
    pub found: bool,
    /// Its content in base64, where it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
}

/// What is told of something in a workspace.
///
/// Names need not be text. One that is not is told twice: for people with replacement characters, and in base64. A path
/// in a query may be percent-encoded bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// The last part of the path; empty for the workspace itself.
    pub name: String,
    /// From the workspace.
    pub path: String,
    /// The path's bytes in base64, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits as a number: 420 is 0o644.
    pub mode: u32,
    /// When the content changed last, by the sandbox's clock.
    pub modified_at: Timestamp,
    /// What a link says, wherever that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Of a regular file: changes whenever its content does. For `if-match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// What something in a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo, socket or device: nothing here opens it.
    Other,
}

/// `PUT …/files`: what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileWritten {
    /// Always true.
    pub ok: bool,
    /// Whether there was no file before.
    pub created: bool,
    /// Its length in bytes.
    pub size: u64,
    /// Of the file as it is now.
    pub etag: String,
}

/// `GET …/files:list`: a page, in the order of the paths' parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// What is in the directory, and beneath it where a `depth` was named.
    pub entries: Vec<FileInfo>,
    /// For the next page; null where this is the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// `POST …/files:mkdir`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MakeDir {
    /// The directory. What is missing above it is made too.
    pub path: String,
}

/// Answer to [`MakeDir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DirMade {
    /// Always true.
    pub ok: bool,
    /// Whether there was none.
    pub created: bool,
}

/// `POST …/files:move`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MoveFile {
    /// A file or directory.
    pub from: String,
    /// Its new path, name included. What is missing above it is made.
    pub to: String,
    /// Whether a file, or an empty directory, that is there is replaced; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// `DELETE …/files`: what was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileDeleted {
    /// Always true.
    pub ok: bool,
    /// Files and directories.
    pub removed: u64,
}

/// `POST …/files:edit`: texts to replace, one after the other, each on what the one before left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EditFile {
    /// The file, at most 16 MiB.
    pub path: String,
    /// 1 to 256.
    #[serde(deserialize_with = "object::each")]
    pub edits: Vec<TextEdit>,
}

/// One text to replace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TextEdit {
    /// Must be in the file exactly once.
    pub old_text: String,
    /// What comes in its place.
    pub new_text: String,
    /// Whether it may be there more than once, and all are replaced; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_all: Option<bool>,
}

/// Answer to [`EditFile`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileEdited {
    /// In unified format, at most 4 MiB; empty where nothing changed. `patch -R -p1` takes it back.
    pub diff: String,
    /// Its bytes in base64, where they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// Counted from 1; null where nothing changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub first_changed_line: Option<u64>,
    /// Of the file as it is now.
    pub etag: String,
}

/// `PUT …/files:archive`: what was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArchiveUnpacked {
    /// Always true.
    pub ok: bool,
    /// Regular files.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// `POST …/files:grep`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepFiles {
    /// A text, or with `regex` a regular expression, up to 4 KiB.
    pub query: String,
    /// The directory, or one file; default the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether `query` is a regular expression (Rust's syntax, no look-around); default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<bool>,
    /// Whether letters of either case are the same; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_insensitive: Option<bool>,
    /// Globs of which a file's path, seen from `path`, must fit one: a string or up to 100. Where `path` is a file, its
    /// name must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Patterns>,
    /// Lines at most, 1 to 10000; default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also `.git` and what `.gitignore` files leave out; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
}

/// One pattern or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Patterns {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl From<Patterns> for Vec<String> {
    fn from(patterns: Patterns) -> Self {
        match patterns {
            Patterns::One(pattern) => vec![pattern],
            Patterns::Several(patterns) => patterns,
        }
    }
}

/// Answer to [`GrepFiles`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepFound {
    /// In the order of the files' paths.
    pub matches: Vec<GrepMatch>,
    /// Whether there may be more.
    pub truncated: bool,
    /// Why there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_by: Option<TruncatedBy>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepMatch {
    /// Of the file, from the workspace.
    pub path: String,
    /// The path's bytes in base64, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Counted from 1.
    pub line: u64,
    /// Where in the line the first match begins, in bytes, counted from 1.
    pub column: u32,
    /// The line without its end, its first 2 KiB.
    pub text: String,
}

/// Why a search may not have found everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TruncatedBy {
    /// `maxResults`, or 4 MiB of them, are reached.
    Results,
    /// It took 20 s.
    Time,
    /// It saw a million files, 200,000 names in one directory, or 128 levels.
    Files,
}

/// `POST …/files:glob`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GlobFiles {
    /// What a path, seen from `path`, must fit: `*` and `?` stay within one name, `**` crosses directories.
    pub pattern: String,
    /// The directory; default the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Globs that leave out a path and what is beneath it: a string or up to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Patterns>,
    /// Entries at most, 1 to 10000; default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also `.git` and what `.gitignore` files leave out; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
}

/// Answer to [`GlobFiles`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GlobFound {
    /// In the order of their paths.
    pub entries: Vec<FileInfo>,
    /// Whether there may be more.
    pub truncated: bool,
    /// Why there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_by: Option<TruncatedBy>,
}

/// One line of `GET …/files:watch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum WatchRecord {
    /// First: from here on nothing is missed.
    Ready,
    /// There is something new.
    #[serde(rename_all = "camelCase")]
    Created {
        /// From the workspace.
        path: String,
        /// The path's bytes in base64, where it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// Its content, mode or time is another. Many changes in a row may be told as one.
    #[serde(rename_all = "camelCase")]
    Modified {
        /// From the workspace.
        path: String,
        /// The path's bytes in base64, where it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// It is gone, or was moved to where nobody watches.
    #[serde(rename_all = "camelCase")]
    Deleted {
        /// From the workspace.
        path: String,
        /// The path's bytes in base64, where it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// It has another path.
    #[serde(rename_all = "camelCase")]
    Moved {
        /// Where it is now.
        path: String,
        /// The path's bytes in base64, where it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Where it was.
        from: String,
    },
    /// Changes were lost, or there are more directories than can be watched: look again.
    Overflow,
    /// Every 15 s without a change.
    Heartbeat,
    /// Last: what was watched is gone.
    Gone,
    /// Last: the sandbox was parked or deleted, or its container went away otherwise, and nobody watches any more.
    Lost,
}
