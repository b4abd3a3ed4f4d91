//! Addresses that sandboxes never reach, even if the operator permits them: the daemon's own listeners, and
//! published ports of sandboxes.
//!
//! A published port leads into a sandbox from every address of this machine, and from the address of its publisher.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::here::Here;

/// A published port of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedAt {
    /// From 1.
    pub port: u16,
    /// Address of the publisher, with its own ports.
    pub publisher: Option<IpAddr>,
}

/// The blocked addresses and ports.
#[derive(Debug)]
pub(super) struct Blocked {
    own_ports: Vec<RangeInclusive<u16>>,
    published: Arc<Mutex<Vec<PublishedAt>>>,
}

/// Blocks a published port for sandboxes until it is dropped.
#[derive(Debug)]
pub struct BlockedPort {
    all: Arc<Mutex<Vec<PublishedAt>>>,
    at: PublishedAt,
}

impl Blocked {
    pub(super) fn new(own_ports: Vec<RangeInclusive<u16>>) -> Self {
        Self { own_ports, published: Arc::default() }
    }

    pub(super) fn keep(&self, at: PublishedAt) -> BlockedPort {
        lock(&self.published).push(at);
        BlockedPort { all: Arc::clone(&self.published), at }
    }

    pub(super) fn has(&self, here: &Here, address: IpAddr, port: u16) -> bool {
        let published = lock(&self.published);
        let is_own = self.own_ports.iter().any(|own| own.contains(&port));
        let is_port = is_own || published.iter().any(|at| at.port == port);
        (is_port && here.is_own(address)) || published.iter().any(|at| at.publisher == Some(address))
    }
}

impl Drop for BlockedPort {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        // Removes only one: a replacement blocks the port before the old one is dropped.
        if let Some(index) = all.iter().position(|at| *at == self.at) {
            all.swap_remove(index);
        }
    }
}

fn lock(all: &Mutex<Vec<PublishedAt>>) -> MutexGuard<'_, Vec<PublishedAt>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_port_is_blocked_until_its_last_guard_is_dropped() {
        let here = Here::at(&["192.168.0.2/24"]);
        let blocked = Blocked::new(vec![8080..=8090]);
        let has = |address: &str, port| blocked.has(&here, address.parse().unwrap(), port);
        assert!(has("127.0.0.1", 8085) && has("192.168.0.2", 8080) && !has("192.168.0.3", 8080));
        assert!(!has("127.0.0.1", 3000) && !has("172.18.0.2", 80));
        let at = PublishedAt { port: 3000, publisher: Some("172.18.0.2".parse().unwrap()) };
        let (first, second) = (blocked.keep(at), blocked.keep(at));
        let is_kept = || has("127.0.0.1", 3000) && has("192.168.0.2", 3000) && has("172.18.0.2", 80);
        assert!(is_kept() && !has("192.168.0.3", 3000) && !has("127.0.0.1", 3001));
        drop(first);
        assert!(is_kept());
        drop(second);
        assert!(!has("127.0.0.1", 3000) && !has("172.18.0.2", 80) && has("127.0.0.1", 8085));
    }
}
