//! Health and readiness of the daemon.

use serde::{Deserialize, Serialize};

/// Response of `GET /v1/health`: the engine responds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always true. If the engine does not respond, the status is 503.
    pub ok: bool,
    /// Kind of engine: `docker`.
    pub engine: String,
    /// Version of the engine.
    pub version: String,
}

/// Response of `GET /v1/ready`: the engine and the image are usable, and existing sandboxes are restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Always true. If the daemon is not ready, the status is 503 and the error names what is missing.
    pub ready: bool,
    /// Whether the engine's disk is nearly full. Creating sandboxes and writing files then fails with 507.
    #[serde(default)]
    pub disk_short: bool,
}
