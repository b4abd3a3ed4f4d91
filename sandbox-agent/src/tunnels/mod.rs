//! Byte streams between sandboxd and the sandbox's loopback, in both directions.
//!
//! Limits their number and decides what they connect to. Inbound, sandboxd names a port. Outbound, processes connect
//! to the [`proxy`], and their requests are [`pending`] until sandboxd opens the connection. In reading order:
//! [`relay`] for the bytes, [`listening`] for the open ports; [`pending`], [`refusal`], [`proxy`], [`client`],
//! [`duplex`] for outbound connections; [`memory`].

mod client;
mod duplex;
mod listening;
mod memory;
pub(crate) mod pending;
mod proxy;
mod refusal;
pub(crate) mod relay;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use agent_protocol::MAX_INBOUND_TUNNELS;
use agent_protocol::fault::Kind;
use agent_protocol::v1::{AcceptConnection, ConnectionUnknown, LimitReached, ListeningReply, PortClosed};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::pending::{NearEnd, PendingConnections, Timeouts};
use self::proxy::Proxy;
use crate::commands::invalid;
use crate::limits::{LOOPBACK_CONNECT, PROXY_REPLY};

/// The tunnels of this sandbox.
#[derive(Debug)]
pub(crate) struct Tunnels {
    pub(crate) pending: Arc<PendingConnections>,
    permits: Arc<Semaphore>,
    proxy: OnceLock<Vec<SocketAddr>>,
}

impl Tunnels {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_timeouts(Timeouts::default())
    }

    fn with_timeouts(timeouts: Timeouts) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(MAX_INBOUND_TUNNELS));
        Arc::new(Self { pending: PendingConnections::new(timeouts), permits, proxy: OnceLock::new() })
    }

    /// Starts the outbound proxy on `port` of the loopback.
    pub(crate) async fn start_proxy(&self, port: u16) -> io::Result<()> {
        let proxy = Proxy::bind(port, Arc::clone(&self.pending)).await?;
        self.proxy.get_or_init(|| proxy.addresses());
        proxy.start();
        Ok(())
    }

    fn proxy_addresses(&self) -> &[SocketAddr] {
        self.proxy.get().map_or(&[], Vec::as_slice)
    }

    /// Lists the listening sockets of the sandbox, without the proxy.
    pub(crate) async fn listening(&self) -> ListeningReply {
        let own = self.proxy_addresses().to_vec();
        // Fails only if the task panics.
        let listed = tokio::task::spawn_blocking(move || listening::list(&own)).await;
        listed.unwrap_or(ListeningReply { sockets: Vec::new(), truncated: true })
    }

    /// Connects to a port of the loopback.
    pub(crate) async fn connect(&self, port: u32) -> Result<(TcpStream, OwnedSemaphorePermit), Kind> {
        let number = u16::try_from(port).ok().filter(|port| *port > 0);
        let number = number.ok_or_else(|| invalid("port", "must be from 1 to 65535".into()))?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let value = MAX_INBOUND_TUNNELS as u64;
            Kind::LimitReached(LimitReached { limit: "connections to its ports".into(), value })
        })?;
        let closed = |errno| Kind::PortClosed(PortClosed { port, errno });
        // Access to a server in the sandbox must not give outbound access through the proxy.
        if self.proxy_addresses().iter().any(|address| address.port() == number) {
            return Err(closed(libc::ECONNREFUSED));
        }
        let stream = match connect_to(Ipv4Addr::LOCALHOST.into(), number).await {
            Ok(stream) => stream,
            Err(first) => {
                let second = connect_to(Ipv6Addr::LOCALHOST.into(), number).await;
                second.map_err(|_| closed(first.raw_os_error().unwrap_or(libc::ETIMEDOUT)))?
            }
        };
        Ok((stream, permit))
    }

    /// Passes sandboxd's decision to a process. Returns the process's end of the connection if it is open.
    pub(crate) async fn accept(&self, accept: &AcceptConnection) -> Result<Option<NearEnd>, Kind> {
        let Some(end) = self.pending.decide(accept)? else {
            return Ok(None);
        };
        let unknown = || Kind::ConnectionUnknown(ConnectionUnknown { id: accept.id });
        let end = timeout(PROXY_REPLY, end).await.map_err(|_| unknown())?;
        end.map(Some).map_err(|_| unknown())
    }
}

async fn connect_to(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = timeout(LOOPBACK_CONNECT, TcpStream::connect((address, port))).await??;
    // If nothing listens on the port and the kernel gives the socket that very port, it connects to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}
