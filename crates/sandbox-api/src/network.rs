//! Connections that a sandbox was denied, and how they are allowed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::DenialId;

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
    /// Id, the same for all denials of the host and port for this reason. Absent from daemons that cannot allow a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<DenialId>,
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
    /// Whether the host can be allowed by the id. If true, this can still be refused, because the name has an address
    /// that is not public.
    #[serde(default)]
    pub allowable: bool,
}

/// Record of a stream of denials: `GET …/network/denials?follow=true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", tag = "event")]
pub enum DenialRecord {
    /// A connection was denied.
    Denied(Denial),
    /// The denials before this record happened before the stream began. Every later one is reported.
    #[serde(rename_all = "camelCase")]
    Ready {
        /// The daemon's time.
        at: Timestamp,
    },
    /// The reader was too slow, so records were dropped.
    #[serde(rename_all = "camelCase")]
    Dropped {
        /// Number of dropped records.
        count: u64,
    },
    /// Sent after 15 seconds of silence.
    Heartbeat,
    /// Last record: the sandbox was deleted.
    Gone,
    /// Last record: the daemon stops.
    Lost,
}

/// Request of `POST …/network/denials/{denialId}:allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AllowDenied {
    /// What to allow.
    pub scope: AllowScope,
}

/// For how long a host is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum AllowScope {
    /// For one use: new connections are allowed until none has been open for 5 seconds, and for at most 10 minutes.
    Once,
    /// For as long as the sandbox exists: the host is added to `allow` of its network policy.
    Sandbox,
}

/// What was allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DenialAllowed {
    /// Name or address of the host.
    pub host: String,
    /// Port that was denied.
    pub port: u16,
    /// As in the request.
    pub scope: AllowScope,
    /// What was allowed, as an entry of `allow`. It covers the ports 80 and 443, or only the port that it names.
    pub rule: String,
    /// With `once`, the latest time at which a connection can begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
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

    /// Whether an entry in `allow` of the sandbox's policy can allow the host.
    pub fn is_allowable(self) -> bool {
        self.can_be_allowed() && self != Self::Off
    }

    /// Whether a change of the sandbox's policy can allow the host.
    pub fn can_be_allowed(self) -> bool {
        match self {
            Self::Off | Self::HostNotAllowed | Self::PortNotAllowed | Self::AddressNotAllowed => true,
            Self::NotPublic | Self::NameMismatch | Self::Invalid | Self::Limit => false,
        }
    }
}
