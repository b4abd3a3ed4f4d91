//! Listening on TCP, within bounds: what the doors of the daemon and of the chat have in common.
//!
//! It knows nothing of what is asked behind them. Whoever accepts connections by it says how many there may be and how long a
//! client may leave what it asked for unread.

mod heads;
pub mod linger;
mod pace;
pub mod serve;
pub mod shape;
pub mod throttle;
pub mod unread;
pub mod waiting;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tracing::warn;

use self::waiting::{Seat, Waiting};

/// Pause after a failed accept, which most often means that descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that may be open at once.
#[derive(Debug, Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    /// Those of them that may have to make place for others.
    waiting: Waiting,
}

impl Places {
    /// So many.
    pub fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), waiting: Waiting::default() }
    }

    /// For a connection that has a place: it waits for its first request from now on.
    pub fn sit_down(&self) -> Arc<Seat> {
        self.waiting.sit_down(Arc::clone(&self.free))
    }

    async fn take(&self) -> io::Result<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
                return Ok(place);
            }
            self.waiting.hang_up_on_one();
            tokio::select! {
                place = Arc::clone(&self.free).acquire_owned() => return place.map_err(io::Error::other),
                () = self.waiting.another() => {}
            }
        }
    }
}

/// The next connection, its peer, and the place it takes. It ends when what it is sent was left unread for `stalled`.
pub async fn accept(
    listener: &TcpListener,
    places: &Places,
    stalled: Duration,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        match try_accept(listener, places, stalled).await {
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
    places: &Places,
    stalled: Duration,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    // Whoever listens for nobody takes no place. A newcomer that finds none waits here, and others in the kernel's queue.
    let (stream, address) = listener.accept().await?;
    let place = places.take().await?;
    tune(&stream, stalled)?;
    Ok((stream, address, place))
}

/// Makes short answers quick, and ends a connection whose client has read nothing for `stalled`.
pub fn tune(stream: &TcpStream, stalled: Duration) -> io::Result<()> {
    // Without it the kernel holds short answers back for 40 ms.
    stream.set_nodelay(true)?;
    // Only the kernel can tell a slow reader from one that stopped: a megabyte may lie in its buffers, and a
    // write of ours goes on only after a good part of it was taken. It ends the connection when the client's
    // window was shut, or what was sent was not acknowledged, for this long (tcp(7), TCP_USER_TIMEOUT).
    let stalled_ms = u32::try_from(stalled.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(stream, stalled_ms)?)
}
