//! What a project may use, and what it uses.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// What a project may use. An absent quota does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Quotas {
    /// Sandboxes, running or parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u64>,
    /// Sandboxes of one subject, running or parked. Those without a subject are not limited by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes_per_subject: Option<u64>,
    /// Running sandboxes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_sandboxes: Option<u64>,
    /// Running sandboxes that other projects always leave room for, within the daemon's maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed_running: Option<u64>,
    /// Memory of the running sandboxes in MiB, as they were created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processors of the running sandboxes, as they were created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u64>,
    /// Disks of the sandboxes in MiB, running or parked, as they were created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    /// Stored bytes of the snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_bytes: Option<u64>,
    /// Bytes of the bases that the sandboxes are over, each counted once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_bytes: Option<u64>,
    /// Bytes of the values that are kept with the sandboxes, and of their keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u64>,
    /// Commands that run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// Valid links to previews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<u64>,
    /// Bytes of outbound connections in both directions on one day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_bytes_per_day: Option<u64>,
    /// Longest time limit of a command in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    /// The images that new sandboxes may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<String>>,
    /// The network modes that sandboxes may get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_modes: Option<Vec<String>>,
}

/// Body of `PUT /v1/projects/{project}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangeProject {
    /// All quotas of the project. They replace the previous ones.
    #[serde(deserialize_with = "crate::object::required")]
    pub quotas: Quotas,
}

/// Response of `GET /v1/projects/{project}/usage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProjectUsage {
    /// Name of the project.
    pub project: String,
    /// What it uses now.
    pub now: Vec<QuotaUsage>,
    /// What it has used on each day (UTC) on which it was used, the newest first. At most 90 days.
    pub days: Vec<DayUsage>,
}

/// A quota, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QuotaUsage {
    /// Name of the quota, as in `quotas`.
    pub quota: String,
    /// What is used now.
    pub used: u64,
    /// The limit that applies. Absent is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// What a project has used on one day (UTC).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DayUsage {
    /// The day.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = Date))]
    pub day: Date,
    /// Milliseconds that its sandboxes ran, added up.
    pub running_ms: u64,
    /// Largest number of sandboxes that ran at the same time.
    pub peak_running: u64,
    /// Commands that were started.
    pub commands: u64,
    /// Bytes of outbound connections in both directions.
    pub egress_bytes: u64,
    /// Largest number of stored bytes of its snapshots.
    pub snapshot_bytes: u64,
}
