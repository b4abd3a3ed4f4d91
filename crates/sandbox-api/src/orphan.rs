//! Workspaces and disks on the engine that belong to no sandbox.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A workspace or disk on the engine that belongs to no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// `workspace` or `disk`.
    pub kind: String,
    /// Id of the sandbox that the workspace belonged to, or name of the disk.
    pub name: String,
    /// When it was first seen without a sandbox.
    pub seen_at: Timestamp,
    /// Earliest time of removal. Absent if it is kept until it is removed manually, because an automatic removal
    /// would delete most of the engine's workspaces and disks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_after: Option<Timestamp>,
}

/// Response of `GET /v1/orphans`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OrphanList {
    /// All orphans that the last check found.
    pub orphans: Vec<Orphan>,
}
