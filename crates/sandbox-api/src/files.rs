//! Files of the workspace: the whole-file operations of the original client, and all others.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object;

/// Request body of `POST …/files:write`. Either all files are written or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WriteFiles {
    /// Files to write, at least one.
    #[serde(deserialize_with = "object::each")]
    pub files: Vec<FileToWrite>,
}

/// A file to write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileToWrite {
    /// Path in the workspace, absolute or relative to the workspace.
    pub path: String,
    /// Content in base64 (RFC 4648 section 4).
    pub content_base64: String,
    /// Permission bits as a number, 0 to 511 (0o777). Default: those of the replaced file, or 0o644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}

/// Response of `GET …/files:read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileRead {
    /// Whether the file exists.
    pub found: bool,
    /// Content in base64. Absent if the file does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
}

/// A file, directory, link or other entry of a workspace.
///
/// Names need not be valid UTF-8. If one is not, it is returned with replacement characters and also in base64. A
/// path in a query may contain percent-encoded bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// Last part of the path. Empty for the workspace itself.
    pub name: String,
    /// Path relative to the workspace.
    pub path: String,
    /// Bytes of the path in base64, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Type of the entry.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits as a number: 420 is 0o644.
    pub mode: u32,
    /// Time of the last change of the content, by the sandbox's clock.
    pub modified_at: Timestamp,
    /// Target of a symbolic link, as stored. It may be outside the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Etag of a regular file, for `if-match`. It changes whenever the content changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// Type of an entry of a workspace.
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
    /// A FIFO, socket or device. The API does not open these.
    Other,
}

/// Response of `PUT …/files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileWritten {
    /// Always true.
    pub ok: bool,
    /// Whether the file is new.
    pub created: bool,
    /// Length of the file in bytes.
    pub size: u64,
    /// Etag of the new content.
    pub etag: String,
}

/// Response of `GET …/files:list`: one page, sorted by the parts of the paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// Entries of the directory, and those below it down to `depth`.
    pub entries: Vec<FileInfo>,
    /// Pass as `cursor` to get the next page. Null on the last page.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// Request body of `POST …/files:mkdir`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MakeDir {
    /// Path of the directory. Missing parent directories are created.
    pub path: String,
}

/// Response of `POST …/files:mkdir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DirMade {
    /// Always true.
    pub ok: bool,
    /// Whether the directory is new.
    pub created: bool,
}

/// Request body of `POST …/files:move`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MoveFile {
    /// Path of the file or directory.
    pub from: String,
    /// New path, including the name. Missing parent directories are created.
    pub to: String,
    /// Whether an existing file or an empty directory at `to` is replaced, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// Request body of `POST …/files:link`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LinkFile {
    /// Path of a regular file.
    pub path: String,
    /// Lifetime in milliseconds, from 1,000 to a day. Default: ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Response of `POST …/files:link`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileLink {
    /// URL that downloads the file. It needs no other credentials.
    pub url: String,
    /// When the link expires.
    pub expires_at: Timestamp,
    /// Length of the file in bytes when the link was created.
    pub size: u64,
}

/// Response of `DELETE …/files`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileDeleted {
    /// Always true.
    pub ok: bool,
    /// Number of removed files and directories.
    pub removed: u64,
}

/// Request body of `POST …/files:edit`. Edits apply in order, each to the result of the previous one, unless
/// `allOnOriginal` is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EditFile {
    /// Path of the file, at most 16 MiB.
    pub path: String,
    /// Edits to apply, 1 to 256.
    #[serde(deserialize_with = "object::each")]
    pub edits: Vec<TextEdit>,
    /// Every edit looks for its text in the file as it was. Edits must not overlap. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_on_original: Option<bool>,
    /// Replaces the values of secret variables in the diff, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide_secrets: Option<bool>,
}

/// A replacement of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TextEdit {
    /// Text to replace. It must occur exactly once in the file.
    pub old_text: String,
    /// Text to insert instead.
    pub new_text: String,
    /// Replaces every occurrence, and allows more than one. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_all: Option<bool>,
}

/// Response of `POST …/files:edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileEdited {
    /// Unified diff, at most 4 MiB. Empty if nothing changed. `patch -R -p1` reverts it.
    pub diff: String,
    /// Bytes of the diff in base64, if they are not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// First changed line, counted from 1. Null if nothing changed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub first_changed_line: Option<u64>,
    /// Etag of the new content.
    pub etag: String,
}

/// Response of `PUT …/files:archive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArchiveUnpacked {
    /// Always true.
    pub ok: bool,
    /// Number of unpacked regular files.
    pub files: u64,
    /// Total size of these files in bytes.
    pub bytes: u64,
}

/// Request body of `POST …/files:grep`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepFiles {
    /// Text to search for, or a regular expression if `regex` is set. At most 4 KiB.
    pub query: String,
    /// Directory or file to search. Default: the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether `query` is a regular expression (Rust syntax, no look-around), default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<bool>,
    /// Whether the search ignores case, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_insensitive: Option<bool>,
    /// Globs, as one string or up to 100. A file is searched if its path relative to `path` matches one of them. If
    /// `path` is a file, its name must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Patterns>,
    /// Maximum number of lines, 1 to 10000, default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also searches `.git` and files that `.gitignore` excludes, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
    /// Replaces the values of secret variables in the matching lines and in names, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide_secrets: Option<bool>,
}

/// One pattern or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Patterns {
    /// One pattern.
    One(String),
    /// Several patterns.
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

/// Response of `POST …/files:grep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepFound {
    /// Matching lines, sorted by path.
    pub matches: Vec<GrepMatch>,
    /// Whether there may be more matches.
    pub truncated: bool,
    /// Why there may be more matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_by: Option<TruncatedBy>,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GrepMatch {
    /// Path of the file, relative to the workspace.
    pub path: String,
    /// Bytes of the path in base64, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Line number, counted from 1.
    pub line: u64,
    /// Start of the first match in the line, in bytes, counted from 1.
    pub column: u32,
    /// First 2 KiB of the line, without the line break.
    pub text: String,
}

/// Why a search may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TruncatedBy {
    /// The results reached `maxResults` or 4 MiB.
    Results,
    /// The search took 20 seconds.
    Time,
    /// The search reached a million files, 200,000 names in one directory, 16 MiB of names on the way down, 128
    /// levels, or the limit of `.gitignore` rules.
    Files,
}

/// Request body of `POST …/files:glob`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GlobFiles {
    /// Glob that paths relative to `path` must match. `*` and `?` stay within one name, `**` crosses directories.
    pub pattern: String,
    /// Directory to search. Default: the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Globs, as one string or up to 100. A matching path and everything below it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Patterns>,
    /// Maximum number of entries, 1 to 10000, default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
    /// Also includes `.git` and files that `.gitignore` excludes, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_ignored: Option<bool>,
    /// Replaces the values of secret variables in names, default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide_secrets: Option<bool>,
}

/// Response of `POST …/files:glob`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GlobFound {
    /// Matching entries, sorted by path.
    pub entries: Vec<FileInfo>,
    /// Whether there may be more entries.
    pub truncated: bool,
    /// Why there may be more entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_by: Option<TruncatedBy>,
}

/// One line of `GET …/files:watch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum WatchRecord {
    /// First record. Every later change is reported.
    Ready,
    /// An entry was created.
    #[serde(rename_all = "camelCase")]
    Created {
        /// Path relative to the workspace.
        path: String,
        /// Bytes of the path in base64, if it is not valid UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// Content, mode or time of an entry changed. One record may report several changes.
    #[serde(rename_all = "camelCase")]
    Modified {
        /// Path relative to the workspace.
        path: String,
        /// Bytes of the path in base64, if it is not valid UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// An entry was deleted, or moved to a directory that is not watched.
    #[serde(rename_all = "camelCase")]
    Deleted {
        /// Path relative to the workspace.
        path: String,
        /// Bytes of the path in base64, if it is not valid UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
    },
    /// An entry was moved.
    #[serde(rename_all = "camelCase")]
    Moved {
        /// New path.
        path: String,
        /// Bytes of the new path in base64, if it is not valid UTF-8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_base64: Option<String>,
        /// Old path.
        from: String,
    },
    /// Changes were lost, or there are more directories than can be watched. List the files again.
    Overflow,
    /// Sent after every 15 seconds without a change.
    Heartbeat,
    /// Last record: the watched file or directory is gone.
    Gone,
    /// Last record: the sandbox was parked or deleted, or its container stopped. The watch has ended.
    Lost,
}
