//! The agent's proxy on the sandbox's loopback, the only outbound path of a sandbox.
//!
//! One listener accepts SOCKS5 and HTTP and distinguishes them by the first byte. It decides nothing: each request
//! goes to sandboxd through [`PendingConnections`]. Clients are untrusted code of this sandbox, so their number,
//! heads and waits are limited. A slow client delays only itself.

mod http;
mod socks;
mod upstream;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use agent_protocol::MAX_OUTBOUND_TUNNELS;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use self::socks::SOCKS_5;
use super::client::Client;
use super::pending::PendingConnections;
use crate::limits::ACCEPT_PAUSE;

/// The listeners.
#[derive(Debug)]
pub(crate) struct Proxy {
    listeners: Vec<TcpListener>,
    pending: Arc<PendingConnections>,
}

impl Proxy {
    /// Binds the port on IPv4, and on IPv6 if the sandbox has it. Must come before the first command, which could
    /// take it instead.
    pub(crate) async fn bind(port: u16, pending: Arc<PendingConnections>) -> io::Result<Self> {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = first.local_addr()?.port();
        let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await.ok();
        Ok(Self { listeners: std::iter::once(first).chain(second).collect(), pending })
    }

    /// Returns the addresses of the listeners.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Starts serving.
    pub(crate) fn start(self) {
        let permits = Arc::new(Semaphore::new(MAX_OUTBOUND_TUNNELS));
        for listener in self.listeners {
            tokio::spawn(accept(listener, Arc::clone(&self.pending), Arc::clone(&permits)));
        }
    }
}

async fn accept(listener: TcpListener, pending: Arc<PendingConnections>, permits: Arc<Semaphore>) {
    // Clients over the limit wait in the kernel's backlog.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve(Client::new(stream, permit), Arc::clone(&pending)));
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(client: Client, pending: Arc<PendingConnections>) {
    let mut first = [0];
    match timeout(pending.timeouts.head, client.peek(&mut first)).await {
        Ok(Ok(1)) if first == [SOCKS_5] => socks::serve(client, &pending).await,
        Ok(Ok(1)) => http::serve(client, pending).await,
        _ => {}
    }
}
