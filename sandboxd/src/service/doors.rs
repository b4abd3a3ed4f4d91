//! Listening ports that links have of their own.
//!
//! A port is bound here, so that whoever makes a link hears at once when there is none, and handed to the gateway, which
//! serves it until the link is over.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tracing::warn;

use super::links::Link;
use super::{Error, Service};

/// A listening port that is a link's own, for the gateway to serve until the link is over.
#[derive(Debug)]
pub struct Door {
    /// The link.
    pub link: Arc<Link>,
    /// Bound already.
    pub listener: TcpListener,
}

impl Service {
    /// The listening ports of links, as they are opened. There is one gateway: for a second caller there is nothing.
    pub fn doors(&self) -> Option<mpsc::Receiver<Door>> {
        self.links.opened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Opens the ports of links that have one of their own and do not have it now.
    pub(super) async fn open_doors(&self) {
        for link in self.links.all() {
            let Some(door) = link.record().door.filter(|_| link.end().is_none()) else { continue };
            if link.has_door.load(Ordering::Relaxed) {
                continue;
            }
            match TcpListener::bind(SocketAddr::new(self.setup.preview.bind.ip(), door)).await {
                Ok(listener) => self.serve_door(&link, listener).await,
                Err(error) => warn!(port = door, %error, "a link's port cannot be had now"),
            }
        }
    }

    /// Hands a link's port to the gateway.
    pub(super) async fn serve_door(&self, link: &Arc<Link>, listener: TcpListener) {
        link.has_door.store(true, Ordering::Relaxed);
        // Without a gateway there is nobody to serve it, and no more links to make.
        let _ = self.links.doors.send(Door { link: Arc::clone(link), listener }).await;
    }

    /// A port of the range that nobody has. The search goes on after the newest one, because browsers remember for a
    /// while what they had from a port.
    pub(super) async fn bind_door(&self) -> Result<TcpListener, Error> {
        let range = self.setup.preview.doors.clone();
        let last = self
            .links
            .all()
            .iter()
            .max_by_key(|link| link.record().created_at_ms)
            .and_then(|link| link.record().door);
        let first =
            last.map_or(*range.start(), |last| last.saturating_add(1)).clamp(*range.start(), *range.end());
        for port in (first..=*range.end()).chain(*range.start()..first) {
            if let Ok(listener) = TcpListener::bind(SocketAddr::new(self.setup.preview.bind.ip(), port)).await
            {
                return Ok(listener);
            }
        }
        Err(Error::LimitReached { limit: "ports for links".into(), value: range.len() as u64 })
    }
}
