//! Accepts and serves TCP connections within limits, for the daemon and the chat.
//!
//! The crate knows nothing about the requests. The caller sets the maximum number of connections, and how long a
//! client may leave a response unread.

mod client_address;
mod forward;
mod heads;
pub mod linger;

pub mod rate;
pub mod serve;
pub mod shape;
pub mod slot;
pub mod throttle;
mod timeouts;
pub mod unread;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tracing::warn;

pub use self::client_address::client_address;
use self::slot::{ConnectionSlot, IdleConnections};

/// Pause after a failed accept, most likely because there are no free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bytes that a connection's send buffer holds beyond those that the kernel may send now.
const MAX_UNSENT_BYTES: u32 = 256 * 1024;

/// Limits the number of open connections.
#[derive(Debug, Clone)]
pub struct ConnectionLimit {
    free: Arc<Semaphore>,
    /// The connections without a current request. They may be closed for new ones.
    idle: IdleConnections,
}

impl ConnectionLimit {
    /// Allows at most `max` connections.
    pub fn new(max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(max)), idle: IdleConnections::default() }
    }

    /// Registers a connection that has a permit. It now waits for its first request.
    pub fn register(&self) -> Arc<ConnectionSlot> {
        self.idle.register(Arc::clone(&self.free))
    }

    async fn take(&self) -> io::Result<OwnedSemaphorePermit> {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return Ok(permit);
            }
            self.idle.close_longest_idle();
            tokio::select! {
                permit = Arc::clone(&self.free).acquire_owned() => return permit.map_err(io::Error::other),
                () = self.idle.available() => {}
            }
        }
    }
}

/// Accepts a connection. Returns it with its peer and its permit. The connection ends if its client leaves data
/// unread for `stalled`.
pub async fn accept(
    listener: &TcpListener,
    limit: &ConnectionLimit,
    stalled: Duration,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        match try_accept(listener, limit, stalled).await {
            Ok(accepted) => return accepted,
            Err(error) => {
                warn!(%error, "could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn try_accept(
    listener: &TcpListener,
    limit: &ConnectionLimit,
    stalled: Duration,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Takes no permit before a connection arrives. A new connection without a permit waits here, others in the
    // kernel's backlog.
    let (stream, address) = listener.accept().await?;
    let permit = limit.take().await?;
    tune(&stream, stalled)?;
    Ok((stream, address, permit))
}

/// Sends short responses without delay, buffers little for a client that reads slowly, and ends a connection whose
/// client has read nothing for `stalled`.
pub fn tune(stream: &TcpStream, stalled: Duration) -> io::Result<()> {
    // Otherwise the kernel delays short responses by 40 ms.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    // Otherwise the kernel buffers up to 4 MiB for each client that does not read, and all of it is lost if the
    // connection breaks. What is on its way to the client is not limited (Linux: ip-sysctl, tcp_notsent_lowat).
    socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
    // Only the kernel can distinguish a slow reader from one that stopped. Its buffers may hold a megabyte, and a
    // write continues only after much of it was read. The kernel ends the connection if the client's window was
    // closed, or data was not acknowledged, for this long (tcp(7), TCP_USER_TIMEOUT).
    socket.set_tcp_user_timeout(Some(stalled))
}
