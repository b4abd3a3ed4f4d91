//! Listening ports that links have of their own.
//!
//! A port is bound here, so that whoever makes a link hears at once when there is none, and handed to the gateway. It
//! stays open for a while after the link's end, so that who follows the link is told, but not where another link needs
//! a port. A browser keeps what it has from an origin, so the next link gets the port that was used longest ago.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use super::link::Link;
use super::{Error, Previews};
use crate::model::{Refusal, limits};
use crate::service::clock::now_ms;

/// A listening port that is a link's own, for the gateway to serve until [`Link::closing`].
#[derive(Debug)]
pub struct LinkListener {
    /// The link.
    pub link: Arc<Link>,
    /// Bound already.
    pub listener: TcpListener,
}

/// In which order ports were used. Counted and not timed, because two may be used in one millisecond.
#[derive(Debug, Default)]
pub(super) struct Turns {
    last: HashMap<u16, u64>,
    count: u64,
}

impl Turns {
    /// A port is some link's now, or was until now.
    pub(super) fn used(&mut self, port: u16) {
        self.count += 1;
        self.last.insert(port, self.count);
    }

    /// Ports, those first that were never used or longest ago.
    fn in_order(&self, range: RangeInclusive<u16>) -> Vec<u16> {
        let mut ports: Vec<u16> = range.collect();
        ports.sort_by_key(|port| (self.last_of(*port), *port));
        ports
    }

    fn last_of(&self, port: u16) -> u64 {
        self.last.get(&port).copied().unwrap_or(0)
    }
}

impl Previews {
    /// The listening ports of links, as they are opened. There is one gateway: for a second caller there is nothing.
    pub fn listeners(&self) -> Option<mpsc::Receiver<LinkListener>> {
        self.links.opened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Opens the ports of links that have one of their own and do not have it now.
    pub(super) async fn open_listeners(&self) {
        for link in self.links.all() {
            let Some(door) = link.record().door.filter(|_| link.end().is_none()) else { continue };
            if link.has_listener.load(Ordering::Relaxed) {
                continue;
            }
            match TcpListener::bind(SocketAddr::new(self.setup.preview.bind.ip(), door)).await {
                Ok(listener) => self.serve(&link, listener).await,
                Err(error) => warn!(port = door, %error, "a link's port cannot be had now"),
            }
        }
    }

    /// Hands a link's port to the gateway.
    pub(super) async fn serve(&self, link: &Arc<Link>, listener: TcpListener) {
        link.has_listener.store(true, Ordering::Relaxed);
        // Without a gateway there is nobody to serve it, and no more links to make.
        let _ = self.links.doors.send(LinkListener { link: Arc::clone(link), listener }).await;
    }

    /// The port of the range that was used longest ago and nobody has. Where there is none, the one of a link that ended.
    pub(super) async fn bind_listener(&self) -> Result<TcpListener, Error> {
        let bound = match self.bind_free_port().await {
            Some(listener) => Some(listener),
            None if self.close_oldest().await => self.bind_free_port().await,
            None => None,
        };
        let range = &self.setup.preview.doors;
        bound.ok_or(
            Refusal::LimitReached { limit: "ports for links".into(), value: range.len() as u64 }.into(),
        )
    }

    async fn bind_free_port(&self) -> Option<TcpListener> {
        let all = self.links.all();
        // Also where something else has it just now: it is in the link's address.
        let promised: Vec<u16> =
            all.iter().filter(|link| link.end().is_none()).filter_map(|link| link.record().door).collect();
        let ports = self.links.turns().in_order(self.setup.preview.doors.clone());
        for port in ports.into_iter().filter(|port| !promised.contains(port)) {
            let address = SocketAddr::new(self.setup.preview.bind.ip(), port);
            if let Ok(listener) = TcpListener::bind(address).await {
                self.links.turns().used(port);
                return Some(listener);
            }
        }
        None
    }

    /// Whether a port is free now that was kept for a link that ended.
    async fn close_oldest(&self) -> bool {
        let all = self.links.all();
        let is_kept = |link: &&Arc<Link>| {
            link.has_listener.load(Ordering::Relaxed)
                && !link.port_is_closing()
                && link.ended_at_ms().is_some()
        };
        let oldest = {
            let turns = self.links.turns();
            all.iter().filter(is_kept).min_by_key(|link| link.record().door.map(|door| turns.last_of(door)))
        };
        let Some(link) = oldest else { return false };
        link.close_port();
        timeout(limits::DOOR_SHUT, link.port_free()).await.is_ok()
    }

    /// Closes ports of links that ended a while ago.
    pub(super) fn close_old_listeners(&self) {
        let long_ago = now_ms() - limits::DOOR_KEPT.as_millis() as i64;
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
    fn the_port_used_longest_ago_has_the_next_turn() {
        let mut turns = Turns::default();
        assert_eq!(turns.in_order(1..=4), [1, 2, 3, 4]);
        for port in [1, 2, 3, 1] {
            turns.used(port);
        }
        assert_eq!(turns.in_order(1..=4), [4, 2, 3, 1]);
    }
}
