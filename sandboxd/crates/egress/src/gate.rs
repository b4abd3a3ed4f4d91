//! The gate decides whether a sandbox may connect to a host, and connects.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use sandbox_api::network::DenialReason;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::here::Here;
use super::resolve::Resolver;
use super::shut::Shut;
use super::{Error, Far, KeptShut, PublishedAt, address, dial, upstream};
use sandboxd_model::{EgressSettings, Host, NetworkPolicy, limits};

/// Decides, and connects. One for the daemon.
#[derive(Debug)]
pub struct Gate {
    settings: EgressSettings,
    pub(super) resolver: Resolver,
    pub(super) shut: Shut,
}

impl Gate {
    /// A gate that never connects to one of `own_ports` of this machine, whatever it is told to open.
    pub fn new(settings: EgressSettings, own_ports: Vec<RangeInclusive<u16>>) -> Self {
        let resolver = Resolver::new(settings.hosts.clone());
        Self { settings, resolver, shut: Shut::new(own_ports) }
    }

    /// Never connects to a published port either, from now on until what it returns is dropped.
    pub fn keep_shut(&self, at: PublishedAt) -> KeptShut {
        self.shut.keep(at)
    }

    /// What one sandbox may move in both directions while it runs, in bytes.
    pub fn max_bytes(&self) -> Option<u64> {
        self.settings.max_bytes
    }

    /// Whether a policy lets a connection be asked for, before anything is known of the host's addresses.
    pub fn judge(&self, policy: &NetworkPolicy, host: &Host, port: u16) -> Result<(), DenialReason> {
        let is_opened = matches!(host, Host::Address(address) if self.is_opened(*address));
        policy.judge(host, port, is_opened)
    }

    /// Connects to a host if a policy lets it. `lookups` are one sandbox's places for names under way.
    pub async fn connect(
        &self,
        policy: &NetworkPolicy,
        host: &Host,
        port: u16,
        lookups: &Arc<Semaphore>,
    ) -> Result<Far, Error> {
        self.judge(policy, host, port).map_err(Error::denied)?;
        let addresses = self.addresses(host, port, lookups).await;
        match self.settings.upstreams.of(host, port) {
            None => dial::first(&addresses?).await,
            Some(upstream) => match addresses {
                // Behind a proxy names of the outside are often not known.
                Ok(_) | Err(Error::NotFound { .. } | Error::Timeout) => {
                    upstream::connect(upstream, host, port).await
                }
                Err(denied) => Err(denied),
            },
        }
    }

    /// Where a host is. All its addresses may be reached, or there are none.
    async fn addresses(
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
        // One that may not be reached says enough about the name.
        let here = Here::now();
        if !found.iter().all(|address| self.may_reach(&here, *address, port)) {
            return Err(Error::denied(DenialReason::NotPublic));
        }
        let found = found.into_iter().take(limits::MAX_ADDRESSES_TRIED);
        Ok(found.map(|address| SocketAddr::new(address, port)).collect())
    }

    pub(super) fn may_reach(&self, here: &Here, address: IpAddr, port: u16) -> bool {
        match self.is_opened(address) {
            true => !self.shut.has(here, address, port),
            false => address::is_public(address) && !here.is_near(address),
        }
    }

    fn is_opened(&self, address: IpAddr) -> bool {
        address::can_be_opened(address) && self.settings.allow_cidr.iter().any(|cidr| cidr.contains(&address))
    }
}
