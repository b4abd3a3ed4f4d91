//! Lines of the audit record.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A line of the audit record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    /// Sequence number, from 1.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Name of the act, such as `token.create`.
    pub act: String,
    /// Sequence number of the line that was written before the act. Absent in that line, and if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// How the act ended: `ok`, the code of an error, or `abandoned` if the caller left. Absent in the line before the act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Project of the principal, or of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Subject of the principal, or of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Id of a project token, or name of another one. Absent for acts of the daemon itself and of visitors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What the act is about: ids, and what else the act's description says.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// Response of `GET /v1/audit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditList {
    /// Lines, newest first.
    pub lines: Vec<AuditLine>,
    /// Cursor of the next page. Absent on the last page. A page may have fewer lines than requested although there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListAudit {
    /// Only lines of this project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only lines of this act, or of all acts that begin with it and a dot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub act: Option<String>,
    /// Maximum number of lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
