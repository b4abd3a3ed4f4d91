//! What a sandbox reaches of the world: whether it may, at which address, and the bytes between.
//!
//! A [`Gate`] decides by the sandbox's policy and resolves the name itself. Every address that the name has must be one
//! that sandboxes may reach, and the connection is made to one of those that were checked, so a name that means something
//! else a moment later changes nothing. This room knows no sandbox: whose policy it is, who waits for the answer and what
//! is counted is the service's.

mod address;
mod carry;
mod dial;
mod handshake;
mod hello;
mod here;
mod inspect;
mod meter;
mod other;
mod request_line;
mod resolve;
mod settings;
mod shut;
mod upstream;
mod web;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use sandbox_api::network::DenialReason;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use carry::{Broken, carry};
pub use dial::Far;
pub use inspect::Expected;
pub use meter::{Meter, Tally};
pub use settings::{CaBundle, Settings};
pub use shut::{KeptShut, PublishedAt};
pub use upstream::{NoProxy, Upstream, Upstreams};

use self::here::Here;
use self::resolve::Resolver;
use self::shut::Shut;
use sandboxd_model::{Host, NetworkPolicy, limits};

/// Why a connection is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It may not be.
    #[error("it is refused: {reason:?}")]
    Denied {
        /// Why.
        reason: DenialReason,
    },
    /// There is no such name.
    #[error("the name was not found")]
    NotFound {
        /// What the resolver said, if it was asked.
        source: io::Error,
    },
    /// There is no way to any of its addresses.
    #[error("no address can be reached")]
    Unreachable {
        /// What the last one said.
        source: io::Error,
    },
    /// The host refused.
    #[error("the host refused the connection")]
    ByPeer {
        /// What the last address said.
        source: io::Error,
    },
    /// Finding the name or connecting took too long.
    #[error("it took too long")]
    Timeout,
    /// The operator's proxy does not connect.
    #[error("the upstream proxy answered {status}")]
    Upstream {
        /// Of its answer.
        status: u16,
    },
}

impl Error {
    fn denied(reason: DenialReason) -> Self {
        Self::Denied { reason }
    }
}

/// Decides, and connects. One for the daemon.
#[derive(Debug)]
pub struct Gate {
    settings: Settings,
    resolver: Resolver,
    shut: Shut,
}

impl Gate {
    /// A gate that never connects to one of `own_ports` of this machine, whatever it is told to open.
    pub fn new(settings: Settings, own_ports: Vec<RangeInclusive<u16>>) -> Self {
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
                Ok(_) | Err(Error::NotFound { .. } | Error::Timeout) => upstream.connect(host, port).await,
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

    fn may_reach(&self, here: &Here, address: IpAddr, port: u16) -> bool {
        match self.is_opened(address) {
            true => !self.shut.has(here, address, port),
            false => address::is_public(address) && !here.is_near(address),
        }
    }

    fn is_opened(&self, address: IpAddr) -> bool {
        address::can_be_opened(address) && self.settings.allow_cidr.iter().any(|cidr| cidr.contains(&address))
    }
}
