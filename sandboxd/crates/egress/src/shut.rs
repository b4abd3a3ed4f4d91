//! What sandboxes never reach, whatever the operator opens to them: the daemon's own doors, and what is published of sandboxes.
//!
//! A port that is published leads into a sandbox from every address of this machine, and from that of whoever publishes it.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::here::Here;

/// A port of this machine that leads into a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedAt {
    /// From 1.
    pub port: u16,
    /// Where its publisher is itself, with ports of its own.
    pub publisher: Option<IpAddr>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shut {
    own_ports: Vec<RangeInclusive<u16>>,
    published: Arc<Mutex<Vec<PublishedAt>>>,
}

/// Keeps a published port shut to sandboxes until it is dropped.
#[derive(Debug)]
pub struct KeptShut {
    all: Arc<Mutex<Vec<PublishedAt>>>,
    at: PublishedAt,
}

impl Shut {
    pub(super) fn new(own_ports: Vec<RangeInclusive<u16>>) -> Self {
        Self { own_ports, published: Arc::default() }
    }

    pub(super) fn keep(&self, at: PublishedAt) -> KeptShut {
        lock(&self.published).push(at);
        KeptShut { all: Arc::clone(&self.published), at }
    }

    pub(super) fn has(&self, here: &Here, address: IpAddr, port: u16) -> bool {
        let published = lock(&self.published);
        let is_door = self.own_ports.iter().any(|own| own.contains(&port));
        let is_port = is_door || published.iter().any(|at| at.port == port);
        (is_port && here.is_own(address)) || published.iter().any(|at| at.publisher == Some(address))
    }
}

impl Drop for KeptShut {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        // One of them: what takes another's place is there before that goes.
        if let Some(place) = all.iter().position(|at| *at == self.at) {
            all.swap_remove(place);
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
    fn a_published_port_is_shut_until_the_last_who_keeps_it_leaves() {
        let here = Here::at(&["192.168.0.2/24"]);
        let shut = Shut::new(vec![8080..=8090]);
        let has = |address: &str, port| shut.has(&here, address.parse().unwrap(), port);
        assert!(has("127.0.0.1", 8085) && has("192.168.0.2", 8080) && !has("192.168.0.3", 8080));
        assert!(!has("127.0.0.1", 3000) && !has("172.18.0.2", 80));
        let at = PublishedAt { port: 3000, publisher: Some("172.18.0.2".parse().unwrap()) };
        let (first, second) = (shut.keep(at), shut.keep(at));
        let is_kept = || has("127.0.0.1", 3000) && has("192.168.0.2", 3000) && has("172.18.0.2", 80);
        assert!(is_kept() && !has("192.168.0.3", 3000) && !has("127.0.0.1", 3001));
        drop(first);
        assert!(is_kept());
        drop(second);
        assert!(!has("127.0.0.1", 3000) && !has("172.18.0.2", 80) && has("127.0.0.1", 8085));
    }
}
