//! Workspaces and disks on the engine that no sandbox claims.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Something on the engine that no sandbox claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// `workspace` or `disk`.
    pub kind: String,
    /// The id of the sandbox that the workspace was of, or the disk's name.
    pub name: String,
    /// When it was first seen without a sandbox.
    pub seen_at: Timestamp,
    /// When it is removed at the earliest; absent where it is kept until somebody removes it, because most of what is on
    /// the engine would go at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_after: Option<Timestamp>,
}

/// `GET /v1/orphans`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OrphanList {
    /// All of them, as of the last look.
    pub orphans: Vec<Orphan>,
}
