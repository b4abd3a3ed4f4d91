//! Files of the workspace, as the original client writes and reads them.

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
    /// Permission bits as a number, 0 to 511 (0o777); default 0o644.
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
