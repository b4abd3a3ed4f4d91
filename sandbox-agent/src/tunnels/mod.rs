//! Streams of bytes between sandboxd and the sandbox's loopback, in both directions.
//!
//! Owns how many there may be, and what they connect to. Inward, sandboxd asks for a port; outward, processes ask the
//! [`proxy`] and wait at the [`desk`] until sandboxd takes them up. In reading order: [`carry`] for the bytes,
//! [`listening`] for what there is to connect to; [`desk`], [`refusal`], [`proxy`], [`inner`] for the way out; [`memory`].

pub(crate) mod carry;
pub(crate) mod desk;
mod inner;
mod listening;
mod memory;
mod proxy;
mod refusal;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use agent_protocol::MAX_INWARD_TUNNELS;
use agent_protocol::fault::Kind;
use agent_protocol::v1::{AcceptConnection, ConnectionUnknown, LimitReached, ListeningReply, PortClosed};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::desk::{Desk, NearEnd, Patience};
use self::proxy::Proxy;
use crate::commands::invalid;
use crate::limits::{HAND_OVER, LOOPBACK_CONNECT};

/// The tunnels of this sandbox.
#[derive(Debug)]
pub(crate) struct Tunnels {
    pub(crate) desk: Arc<Desk>,
    places: Arc<Semaphore>,
    proxy: OnceLock<Vec<SocketAddr>>,
}

impl Tunnels {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_patience(Patience::default())
    }

    fn with_patience(patience: Patience) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(MAX_INWARD_TUNNELS));
        Arc::new(Self { desk: Desk::new(patience), places, proxy: OnceLock::new() })
    }

    /// Offers the way out on `port` of the loopback.
    pub(crate) async fn start_proxy(&self, port: u16) -> io::Result<()> {
        let proxy = Proxy::bind(port, Arc::clone(&self.desk)).await?;
        self.proxy.get_or_init(|| proxy.addresses());
        proxy.start();
        Ok(())
    }

    fn proxy_addresses(&self) -> &[SocketAddr] {
        self.proxy.get().map_or(&[], Vec::as_slice)
    }

    /// What listens in the sandbox, but for the proxy.
    pub(crate) async fn listening(&self) -> ListeningReply {
        let own = self.proxy_addresses().to_vec();
        // Only a panic keeps it from its answer.
        let looked = tokio::task::spawn_blocking(move || listening::look(&own)).await;
        looked.unwrap_or(ListeningReply { sockets: Vec::new(), truncated: true })
    }

    /// Connects to what listens on a port of the loopback.
    pub(crate) async fn connect(&self, port: u32) -> Result<(TcpStream, OwnedSemaphorePermit), Kind> {
        let number = u16::try_from(port).ok().filter(|port| *port > 0);
        let number = number.ok_or_else(|| invalid("port", "must be from 1 to 65535".into()))?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let value = MAX_INWARD_TUNNELS as u64;
            Kind::LimitReached(LimitReached { limit: "connections to its ports".into(), value })
        })?;
        let closed = |errno| Kind::PortClosed(PortClosed { port, errno });
        // Who may look at a server of the sandbox may not thereby leave it.
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
        Ok((stream, place))
    }

    /// Tells a process what became of its wish; answers with its end of the connection where that is open.
    pub(crate) async fn accept(&self, accept: &AcceptConnection) -> Result<Option<NearEnd>, Kind> {
        let Some(end) = self.desk.answer(accept)? else {
            return Ok(None);
        };
        let unknown = || Kind::ConnectionUnknown(ConnectionUnknown { id: accept.id });
        let end = timeout(HAND_OVER, end).await.map_err(|_| unknown())?;
        end.map(Some).map_err(|_| unknown())
    }
}

async fn connect_to(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = timeout(LOOPBACK_CONNECT, TcpStream::connect((address, port))).await??;
    // The kernel connects a socket to itself where nobody listens and it gave the socket that very port.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}
