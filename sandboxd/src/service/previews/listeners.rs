//! Listeners of links with a port of their own.
//!
//! A port is bound here, so that creating a link fails at once if no port is free, and the listener is passed to the gateway.
//! It stays open for a while after the link's end to show why the link does not work, unless another link needs a port.
//! Browsers keep data of an origin, so a new link gets the port that was used longest ago.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use super::link::Link;
use super::{Error, Previews};
use crate::model::{Refusal, limits};
use crate::service::clock::now_ms;

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
struct PortUse {
    last: HashMap<u16, u64>,
    count: u64,
}

impl PortUse {
    fn record(&mut self, port: u16) {
        self.count += 1;
        self.last.insert(port, self.count);
    }

    /// Sorts ports: first those that were never used, then by their last use, the oldest first.
    fn in_order(&self, range: RangeInclusive<u16>) -> Vec<u16> {
        let mut ports: Vec<u16> = range.collect();
        ports.sort_by_key(|port| (self.last_of(*port), *port));
        ports
    }

    fn last_of(&self, port: u16) -> u64 {
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
    /// Records that a link uses the port now, or used it until now.
    pub(super) fn record_use(&self, port: u16) {
        self.port_use().record(port);
    }

    fn port_use(&self) -> MutexGuard<'_, PortUse> {
        self.port_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Previews {
    /// Returns the receiver of new listeners. Only the first caller gets it, because there is one gateway.
    pub fn listeners(&self) -> Option<mpsc::Receiver<LinkListener>> {
        self.listeners.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Binds the ports of links that have their own port and no listener for it.
    pub(super) async fn open_listeners(&self) {
        for link in self.links.all() {
            let Some(port) = link.record().own_port.filter(|_| link.end().is_none()) else { continue };
            if link.has_listener.load(Ordering::Relaxed) {
                continue;
            }
            match TcpListener::bind(SocketAddr::new(self.setup.preview.bind.ip(), port)).await {
                Ok(listener) => self.serve(&link, listener).await,
                Err(error) => warn!(port, %error, "could not listen on a link's port"),
            }
        }
    }

    /// Passes a link's listener to the gateway.
    pub(super) async fn serve(&self, link: &Arc<Link>, listener: TcpListener) {
        link.has_listener.store(true, Ordering::Relaxed);
        // Fails only if the gateway has stopped. Then no link is served any more.
        let _ = self.listeners.sender.send(LinkListener { link: Arc::clone(link), listener }).await;
    }

    /// Binds the free port of the range that was used longest ago. If none is free, takes the port of an ended link.
    pub(super) async fn bind_listener(&self) -> Result<TcpListener, Error> {
        let bound = match self.bind_free_port().await {
            Some(listener) => Some(listener),
            None if self.close_oldest().await => self.bind_free_port().await,
            None => None,
        };
        let range = &self.setup.preview.link_ports;
        bound.ok_or(
            Refusal::LimitReached { limit: "ports for links".into(), value: range.len() as u64 }.into(),
        )
    }

    async fn bind_free_port(&self) -> Option<TcpListener> {
        let all = self.links.all();
        // Includes ports that another process has bound, because they are part of the links' URLs.
        let promised: Vec<u16> = all
            .iter()
            .filter(|link| link.end().is_none())
            .filter_map(|link| link.record().own_port)
            .collect();
        let ports = self.listeners.port_use().in_order(self.setup.preview.link_ports.clone());
        for port in ports.into_iter().filter(|port| !promised.contains(port)) {
            let address = SocketAddr::new(self.setup.preview.bind.ip(), port);
            if let Ok(listener) = TcpListener::bind(address).await {
                self.listeners.record_use(port);
                return Some(listener);
            }
        }
        None
    }

    /// Closes the port of the ended link whose port was used longest ago. Returns whether a port became free.
    async fn close_oldest(&self) -> bool {
        let all = self.links.all();
        let is_kept = |link: &&Arc<Link>| {
            link.has_listener.load(Ordering::Relaxed)
                && !link.port_is_closing()
                && link.ended_at_ms().is_some()
        };
        let oldest = {
            let port_use = self.listeners.port_use();
            all.iter()
                .filter(is_kept)
                .min_by_key(|link| link.record().own_port.map(|port| port_use.last_of(port)))
        };
        let Some(link) = oldest else { return false };
        link.close_port();
        timeout(limits::LINK_LISTENER_CLOSE, link.port_closed()).await.is_ok()
    }

    /// Closes the ports of links that ended a while ago.
    pub(super) fn close_old_listeners(&self) {
        let long_ago = now_ms() - limits::LINK_LISTENER_KEPT.as_millis() as i64;
        for link in self.links.all() {
            if link.ended_at_ms().is_some_and(|at| at < long_ago) {
                link.close_port();
            }
        }
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
