//! Values that are kept with a sandbox, by key.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Response of `GET …/kv`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ValueList {
    /// The values, without their bytes, in the order of the bytes of their keys.
    pub values: Vec<ValueInfo>,
    /// Cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A value without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ValueInfo {
    /// Its key.
    pub key: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}
