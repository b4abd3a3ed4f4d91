//! Whether the daemon lives, and whether it can be used.

use serde::{Deserialize, Serialize};

/// `GET /v1/health`: the engine answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always true; an engine that does not answer is a 503.
    pub ok: bool,
    /// The kind of engine: `docker`.
    pub engine: String,
    /// The engine's version.
    pub version: String,
}

/// `GET /v1/ready`: engine and image are usable and the sandboxes of before are known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Always true; a daemon that is not ready answers 503 and names what is missing.
    pub ready: bool,
    /// The engine's disk is nearly full: creating sandboxes and writing files is refused with 507.
    #[serde(default)]
    pub disk_short: bool,
}
