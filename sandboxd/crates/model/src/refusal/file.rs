//! Why a request about files is refused.

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use super::system::system_message;
use crate::echo::Echo;
use crate::public_error::PublicError;

/// Why a request about files is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.to_public().message)]
pub enum FileRefusal {
    /// The path leads out of the workspace.
    OutsideWorkspace {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a regular file.
    NotAFile {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a directory.
    NotADirectory {
        /// As in the request.
        path: String,
    },
    /// The file does not exist, or its content is not what the request requires.
    ConditionFailed {
        /// As in the request.
        path: String,
    },
    /// The path exists and may not be replaced.
    AlreadyThere {
        /// As in the request.
        path: String,
    },
    /// A directory to remove is not empty.
    NotEmpty {
        /// As in the request.
        path: String,
    },
    /// A change failed, and some of the files that it had replaced could not be put back.
    NotPutBack {
        /// The first of them.
        path: String,
        /// Number of files.
        files: u64,
        /// Directory of the workspace that contains them now.
        kept_in: String,
    },
    /// A text that must occur once in the file occurs more often, or not at all.
    TextCount {
        /// Index of the edit, from 0.
        edit: u32,
        /// Number of occurrences.
        occurrences: u64,
    },
    /// The archive cannot be unpacked.
    ArchiveBad {
        /// The member at fault; empty if the fault is in the archive as a whole.
        member: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A snapshot cannot have this file, or a restore cannot make it.
    TreeRejected {
        /// Relative to the snapshot's root, such as `workspace/a`.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no byte of the requested range.
    RangeEmpty {
        /// The file's size.
        size_bytes: u64,
    },
    /// The workspace is full.
    NoSpace {
        /// As in the request.
        path: String,
    },
    /// Another error of the file system.
    Failed {
        /// As in the request.
        path: String,
        /// The system's error number.
        errno: i32,
    },
}

impl FileRefusal {
    /// The part of the refusal that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::OutsideWorkspace { path } => PublicError::new(
                ErrorCode::Refused,
                format!("the path {} leads out of the workspace", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotAFile { path } => PublicError::new(
                ErrorCode::Refused,
                format!("{} is not a regular file", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotADirectory { path } => PublicError::new(
                ErrorCode::Refused,
                format!("{} is not a directory", Echo(path)),
                json!({ "path": path }),
            ),
            Self::ConditionFailed { path } => PublicError::new(
                ErrorCode::PreconditionFailed,
                format!(
                    "{} does not meet `if-match` or `if-none-match`, or no longer has the content that was read; \
                     it was not changed",
                    Echo(path)
                ),
                json!({ "path": path }),
            ),
            Self::AlreadyThere { path } => PublicError::new(
                ErrorCode::AlreadyExists,
                format!("{} already exists and may not be replaced", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotEmpty { path } => PublicError::new(
                ErrorCode::WrongState,
                format!("the directory {} is not empty; remove it with `recursive=true`", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotPutBack { path, files, kept_in } => PublicError::new(
                ErrorCode::WrongState,
                format!(
                    "the change failed, and {files} files could not be put back because a command was changing them, {} first; \
                     their earlier content is in {}",
                    Echo(path),
                    Echo(kept_in)
                ),
                json!({ "path": path, "files": files, "keptIn": kept_in }),
            ),
            Self::TextCount { edit, occurrences } => PublicError::new(
                ErrorCode::WrongState,
                format!(
                    "`edits[{edit}].oldText` occurs {occurrences} times in the file, and without `replaceAll` must occur once; it was not changed"
                ),
                json!({ "field": format!("edits[{edit}].oldText"), "occurrences": occurrences }),
            ),
            Self::ArchiveBad { member, problem } => PublicError::new(
                ErrorCode::Refused,
                format!("the archive was not unpacked: {problem}"),
                json!({ "member": member }),
            ),
            Self::TreeRejected { path, problem } => PublicError::new(
                ErrorCode::Refused,
                format!("no snapshot can have {}: it {problem}", Echo(path)),
                json!({ "path": path }),
            ),
            Self::RangeEmpty { size_bytes } => PublicError::new(
                ErrorCode::RangeNotSatisfiable,
                format!("the file has {size_bytes} bytes, and none of them is in the range"),
                json!({ "sizeBytes": size_bytes }),
            ),
            Self::NoSpace { path } => PublicError::new(
                ErrorCode::InsufficientStorage,
                format!("no space left in the workspace for {}", Echo(path)),
                json!({ "path": path }),
            ),
            Self::Failed { path, errno } => PublicError::new(
                ErrorCode::Refused,
                format!("the file {} could not be used: {}", Echo(path), system_message(*errno)),
                json!({ "path": path, "errno": errno }),
            ),
        }
    }
}
