//! Connections that a sandbox was denied.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Response of `GET …/network/denials`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DenialList {
    /// Denials, newest first.
    pub denials: Vec<Denial>,
}

/// A host and port that the sandbox's processes requested and were denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// Name or address of the host. An invalid host is returned as the process wrote it.
    pub host: String,
    /// Port, 1 to 65535.
    pub port: u16,
    /// Number of denials for this reason.
    pub count: u64,
    /// Time of the last denial.
    pub last_at: Timestamp,
    /// Reason for the denial.
    pub reason: DenialReason,
}

/// Why a connection was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum DenialReason {
    /// The sandbox has no network: its mode is `none`.
    Off,
    /// The name is not allowed.
    HostNotAllowed,
    /// The host is allowed, but not on this port.
    PortNotAllowed,
    /// The address is not allowed.
    AddressNotAllowed,
    /// The address, or one that the name resolves to, is not public. Adding it to `allow` has no effect.
    NotPublic,
    /// The data sent names another host than requested, or none.
    NameMismatch,
    /// The requested host is invalid. Numeric addresses must have four decimal parts.
    Invalid,
    /// The sandbox exceeded a limit: open connections, connections per second, or bytes.
    Limit,
}

impl DenialReason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Off,
        Self::HostNotAllowed,
        Self::PortNotAllowed,
        Self::AddressNotAllowed,
        Self::NotPublic,
        Self::NameMismatch,
        Self::Invalid,
        Self::Limit,
    ];

    /// Whether a change of the sandbox's policy can allow the host.
    pub fn can_be_allowed(self) -> bool {
        match self {
            Self::Off | Self::HostNotAllowed | Self::PortNotAllowed | Self::AddressNotAllowed => true,
            Self::NotPublic | Self::NameMismatch | Self::Invalid | Self::Limit => false,
        }
    }
}
