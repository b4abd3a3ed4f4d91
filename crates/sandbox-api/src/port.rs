//! Ports of a sandbox: what listens on them, and the links that lead to them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::LinkId;

/// `GET …/ports`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ports {
    /// What listens on TCP in the sandbox, by port; nothing while it is parked.
    pub listening: Vec<ListeningPort>,
    /// There is more that listens, or not every process could be looked at.
    pub truncated: bool,
    /// Ports that are published on the host.
    pub published: Vec<PublishedPort>,
    /// Links that lead to a port.
    pub links: Vec<Link>,
}

/// A socket that listens in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListeningPort {
    /// 1 to 65535.
    pub port: u16,
    /// What it is bound to; `0.0.0.0` and `::` are every address.
    pub address: String,
    /// What the process calls itself, where one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Its number in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
}

/// A port that is published on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PublishedPort {
    /// In the sandbox.
    pub port: u16,
    /// On the host.
    pub host_port: u16,
    /// Where it is found.
    pub url: String,
}

/// `GET …/ports/{port}`: where a port is found from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PortFound {
    /// False where it is not among the ports that the sandbox may offer; then there is nothing else.
    pub found: bool,
    /// Where the link's listener, or the published port, is on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// For whoever is to see it. Who has it needs nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How a link tells which preview it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LinkStyle {
    /// By a host name of its own, beneath the preview domain.
    Host,
    /// By a listening port of its own, for where there are no such names. A cookie keeps others out.
    Port,
}

/// `POST …/ports/{port}/links`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateLink {
    /// Milliseconds that it is good for, from 1,000 to a year; without it as long as the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Without it `host` where the previews are found under names, and else `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<LinkStyle>,
}

/// A link that leads to a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Its id.
    pub link_id: LinkId,
    /// In the sandbox.
    pub port: u16,
    /// How it is found.
    pub style: LinkStyle,
    /// For whoever is to see the preview. Who has it needs nothing else.
    pub url: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when it leads nowhere; `null` is as long as the sandbox.
    pub expires_at: Option<Timestamp>,
}

/// `GET …/ports/{port}/links`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LinkList {
    /// The newest last.
    pub links: Vec<Link>,
}
