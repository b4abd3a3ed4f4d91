//! Ports of a sandbox: listening sockets, and the links to them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::LinkId;

/// Response of `GET …/ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ports {
    /// TCP sockets that listen in the sandbox, sorted by port. Empty while it is parked.
    pub listening: Vec<ListeningPort>,
    /// Whether sockets are missing: there are too many, or some processes could not be inspected.
    pub truncated: bool,
    /// Ports that are published on the host.
    pub published: Vec<PublishedPort>,
    /// Links to a port.
    pub links: Vec<Link>,
}

/// A socket that listens in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListeningPort {
    /// Port, 1 to 65535.
    pub port: u16,
    /// Address that the socket is bound to. `0.0.0.0` and `::` mean every address.
    pub address: String,
    /// Name of the process, if it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Process id in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// A port that is published on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PublishedPort {
    /// Port in the sandbox.
    pub port: u16,
    /// Port on the host.
    pub host_port: u16,
    /// URL of the published port.
    pub url: String,
}

/// Response of `GET …/ports/{port}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PortFound {
    /// Whether the sandbox may expose the port. If false, the other fields are absent.
    pub found: bool,
    /// Port on the host: that of the link's listener, or the published port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// URL that opens the preview. It needs no other credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How a link identifies its preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LinkStyle {
    /// By its own host name below the preview domain.
    Host,
    /// By its own listening port, for hosts without such names. A cookie restricts access.
    Port,
}

/// Request body of `POST …/ports/{port}/links`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateLink {
    /// Lifetime in milliseconds, from 1,000 to a year. Default: the lifetime of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Style of the link. Default: `host` if previews use host names, otherwise `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<LinkStyle>,
}

/// A link to a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Id of the link.
    pub link_id: LinkId,
    /// Port in the sandbox.
    pub port: u16,
    /// Style of the link.
    pub style: LinkStyle,
    /// URL that opens the preview. It needs no other credentials.
    pub url: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// When the link expires. Null if it lasts as long as the sandbox.
    pub expires_at: Option<Timestamp>,
}

/// Response of `GET …/ports/{port}/links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LinkList {
    /// Links, newest last.
    pub links: Vec<Link>,
}
