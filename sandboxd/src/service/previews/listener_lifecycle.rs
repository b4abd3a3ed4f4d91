//! Opens and closes the listeners of links with a port of their own.
//!
//! A port is bound here, so that creating a link fails at once if no port is free. The listener is then passed to the
//! gateway. It stays open for a while after the link's end to show why the link does not work, unless another link
//! needs a port. Browsers keep data of an origin, so a new link gets the port that was used longest ago.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use super::link::Link;
use super::listeners::LinkListener;
use super::{Error, Previews};
use crate::model::{Refusal, limits};
use crate::service::clock::now_ms;

impl Previews {
    /// Returns the receiver of new listeners. Only the first caller gets it, because there is one gateway.
    pub fn listeners(&self) -> Option<mpsc::Receiver<LinkListener>> {
        self.listeners.take_receiver()
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
        // If the gateway has stopped, no link is served any more.
        self.listeners.pass(LinkListener { link: Arc::clone(link), listener }).await;
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
