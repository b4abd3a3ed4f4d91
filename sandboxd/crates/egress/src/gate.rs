//! The gate decides whether a sandbox may connect to a host, and connects.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use sandbox_api::network::DenialReason;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::blocked::Blocked;
use super::here::Here;
use super::resolve::Resolver;
use super::{BlockedPort, Error, PublishedAt, RemoteEndpoint, address, dial, upstream};
use sandboxd_model::{EgressSettings, Host, NetworkPolicy, Upstream, limits};

/// Decides and connects. The daemon has one.
#[derive(Debug)]
pub struct Gate {
    settings: EgressSettings,
    pub(super) resolver: Resolver,
    pub(super) blocked: Blocked,
}

impl Gate {
    /// Creates a gate that never connects to one of `own_ports` of this machine, even if the settings permit it.
    pub fn new(settings: EgressSettings, own_ports: Vec<RangeInclusive<u16>>) -> Self {
        let resolver = Resolver::new(settings.hosts.clone());
        Self { settings, resolver, blocked: Blocked::new(own_ports) }
    }

    /// Blocks a published port, until the result is dropped.
    pub fn block_port(&self, at: PublishedAt) -> BlockedPort {
        self.blocked.keep(at)
    }

    /// Maximum traffic of one sandbox while it runs, in both directions, in bytes.
    pub fn max_bytes(&self) -> Option<u64> {
        self.settings.max_bytes
    }

    /// Whether a policy permits a connection, as far as the host and port decide it. The host's addresses are
    /// checked later.
    pub fn judge(&self, policy: &NetworkPolicy, host: &Host, port: u16) -> Result<(), DenialReason> {
        let is_opened = matches!(host, Host::Address(address) if self.is_opened(*address));
        policy.judge(host, port, is_opened)
    }

    /// Connects to a host if the policy permits it. `lookups` limits the concurrent look-ups of one sandbox.
    pub async fn connect(
        &self,
        policy: &NetworkPolicy,
        host: &Host,
        port: u16,
        lookups: &Arc<Semaphore>,
    ) -> Result<RemoteEndpoint, Error> {
        self.judge(policy, host, port).map_err(Error::denied)?;
        let addresses = self.addresses(host, port, lookups).await;
        match self.upstream_of(host, port) {
            None => dial::first(&addresses?).await,
            Some(upstream) => match addresses {
                // Behind a proxy, names of the public internet often cannot be resolved.
                Ok(_) | Err(Error::NotFound { .. } | Error::Timeout) => {
                    upstream::connect(upstream, host, port).await
                }
                Err(denied) => Err(denied),
            },
        }
    }

    /// Whether a rule of a policy can allow a connection, as far as the host decides it. The addresses of a name are
    /// checked by [`check_addresses`](Self::check_addresses) and by each connection.
    pub fn may_allow(&self, host: &Host, port: u16) -> bool {
        match host {
            Host::Name(_) => true,
            Host::Address(address) => self.may_reach(&Here::now(), *address, port),
        }
    }

    /// Fails with the reason `NotPublic` if no policy can allow a connection, because of an address of the host. `lookups`
    /// limits the concurrent look-ups of one sandbox.
    pub async fn check_addresses(
        &self,
        host: &Host,
        port: u16,
        lookups: &Arc<Semaphore>,
    ) -> Result<(), Error> {
        self.addresses(host, port, lookups).await.map(drop)
    }

    /// The operator's proxy for a host, if it has one.
    pub fn upstream_of(&self, host: &Host, port: u16) -> Option<&Upstream> {
        self.settings.upstreams.of(host, port)
    }

    /// The addresses of a host. Fails unless all of them may be reached, whatever the policy of a sandbox is. `lookups` limits
    /// the concurrent look-ups of one caller.
    pub async fn addresses(
        &self,
        host: &Host,
        port: u16,
        lookups: &Arc<Semaphore>,
    ) -> Result<Vec<SocketAddr>, Error> {
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let looked_up = self.resolver.look_up(name, lookups);
                timeout(limits::EGRESS_RESOLVE, looked_up).await.map_err(|_| Error::Timeout)??
            }
        };
        // A single address that must not be reached disqualifies the name.
        let here = Here::now();
        if !found.iter().all(|address| self.may_reach(&here, *address, port)) {
            return Err(Error::denied(DenialReason::NotPublic));
        }
        let found = found.into_iter().take(limits::MAX_ADDRESSES_TRIED);
        Ok(found.map(|address| SocketAddr::new(address, port)).collect())
    }

    pub(super) fn may_reach(&self, here: &Here, address: IpAddr, port: u16) -> bool {
        match self.is_opened(address) {
            true => !self.blocked.has(here, address, port),
            false => address::is_public(address) && !here.is_near(address),
        }
    }

    fn is_opened(&self, address: IpAddr) -> bool {
        address::can_be_opened(address) && self.settings.allow_cidr.iter().any(|cidr| cidr.contains(&address))
    }
}
