//! What a sandbox was refused of the network.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// `GET …/network/denials`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DenialList {
    /// The newest first.
    pub denials: Vec<Denial>,
}

/// A host and port that the sandbox's processes asked for and were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// A name or an address. What is no host is told as the process wrote it.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
    /// How often it was refused for this reason.
    pub count: u64,
    /// The last time.
    pub last_at: Timestamp,
    /// Why.
    pub reason: DenialReason,
}

/// Why a sandbox may not connect to what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum DenialReason {
    /// The sandbox has no network: its mode is `none`.
    Off,
    /// The name is not among those that are allowed.
    HostNotAllowed,
    /// The host may be reached, and not on this port.
    PortNotAllowed,
    /// It was asked for by an address that is not among those that are allowed.
    AddressNotAllowed,
    /// The name leads to an address that is not public, or such an address was asked for. Allowing it does not help.
    NotPublic,
    /// What was sent is for another name than the one that was asked for, or does not say for which.
    NameMismatch,
    /// What was asked for is no host. Numbers that are not written as four decimal ones are none.
    Invalid,
    /// More connections at once or in a second, or more bytes, than a sandbox may have.
    Limit,
}

impl DenialReason {
    /// All of them.
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

    /// Whether the host can be allowed by a change of the sandbox's policy.
    pub fn can_be_allowed(self) -> bool {
        match self {
            Self::Off | Self::HostNotAllowed | Self::PortNotAllowed | Self::AddressNotAllowed => true,
            Self::NotPublic | Self::NameMismatch | Self::Invalid | Self::Limit => false,
        }
    }
}
