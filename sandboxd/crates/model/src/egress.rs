//! The operator's settings for the network access of sandboxes.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{CaBundle, Upstreams};

/// Settings that hold for all sandboxes.
#[derive(Debug, Clone, Default)]
pub struct EgressSettings {
    /// Ranges that sandboxes may reach although they are not public.
    pub allow_cidr: Vec<IpNet>,
    /// Addresses of names, used instead of the resolver.
    pub hosts: HashMap<String, Vec<IpAddr>>,
    /// Proxies for outbound connections.
    pub upstreams: Upstreams,
    /// Maximum traffic of one sandbox while it runs, in both directions, in bytes.
    pub max_bytes: Option<u64>,
    /// Certificates that sandboxes trust.
    pub ca_bundle: Option<CaBundle>,
}
