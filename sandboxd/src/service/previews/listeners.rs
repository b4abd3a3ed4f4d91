//! Listeners of links with a port of their own, and when each port was last used.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::link::Link;
use crate::model::limits;

/// A link's own listener, which the gateway serves until [`Link::closing`].
#[derive(Debug)]
pub struct LinkListener {
    /// The link.
    pub link: Arc<Link>,
    /// Already bound.
    pub listener: TcpListener,
}

/// Order in which ports were last used. It is counted instead of timed, because two may be used in one millisecond.
#[derive(Debug, Default)]
pub(super) struct PortUse {
    last: HashMap<u16, u64>,
    count: u64,
}

impl PortUse {
    fn record(&mut self, port: u16) {
        self.count += 1;
        self.last.insert(port, self.count);
    }

    /// Sorts ports: first those that were never used, then by their last use, the oldest first.
    pub(super) fn in_order(&self, range: RangeInclusive<u16>) -> Vec<u16> {
        let mut ports: Vec<u16> = range.collect();
        ports.sort_by_key(|port| (self.last_of(*port), *port));
        ports
    }

    pub(super) fn last_of(&self, port: u16) -> u64 {
        self.last.get(&port).copied().unwrap_or(0)
    }
}

/// The listeners of all links: when each port was last used, and the listeners that the gateway does not serve yet.
#[derive(Debug)]
pub(super) struct Listeners {
    port_use: Mutex<PortUse>,
    sender: mpsc::Sender<LinkListener>,
    receiver: Mutex<Option<mpsc::Receiver<LinkListener>>>,
}

impl Default for Listeners {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(limits::MAX_PENDING_LISTENERS);
        Self { port_use: Mutex::default(), sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Listeners {
    /// Returns the receiver of new listeners, once.
    pub(super) fn take_receiver(&self) -> Option<mpsc::Receiver<LinkListener>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Passes a link's listener to the gateway. It is dropped if the gateway has stopped.
    pub(super) async fn pass(&self, listener: LinkListener) {
        let _ = self.sender.send(listener).await;
    }

    /// Records that a link uses the port now, or used it until now.
    pub(super) fn record_use(&self, port: u16) {
        self.port_use().record(port);
    }

    pub(super) fn port_use(&self) -> MutexGuard<'_, PortUse> {
        self.port_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_used_longest_ago_comes_first() {
        let mut port_use = PortUse::default();
        assert_eq!(port_use.in_order(1..=4), [1, 2, 3, 4]);
        for port in [1, 2, 3, 1] {
            port_use.record(port);
        }
        assert_eq!(port_use.in_order(1..=4), [4, 2, 3, 1]);
    }
}
