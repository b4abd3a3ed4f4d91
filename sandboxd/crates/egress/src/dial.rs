//! Connections to addresses that were checked.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Error;
use sandboxd_model::limits;

/// A connection to a host. Dropping it before [`finish`](Self::finish) resets it.
#[derive(Debug)]
pub struct RemoteEndpoint {
    pub(super) stream: TcpStream,
    /// Bytes that arrived before anything could read them.
    pub(super) early: Bytes,
    is_finished: bool,
}

impl RemoteEndpoint {
    pub(super) fn new(stream: TcpStream, early: Bytes) -> Self {
        // If the connection is already broken, the first read reports it.
        let _ = stream.set_nodelay(true);
        Self { stream, early, is_finished: false }
    }

    /// Ends the connection without a reset, after both directions have ended.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for RemoteEndpoint {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// Connects to the first address that responds. Tries one after the other.
pub(super) async fn first(addresses: &[SocketAddr]) -> Result<RemoteEndpoint, Error> {
    let began = Instant::now();
    let mut last = Error::Timeout;
    for address in addresses {
        let left = limits::EGRESS_CONNECT.saturating_sub(began.elapsed()).min(limits::EGRESS_CONNECT_EACH);
        match timeout(left, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(RemoteEndpoint::new(stream, Bytes::new())),
            Ok(Err(source)) => last = failed(source),
            Err(_) => last = Error::Timeout,
        }
    }
    Err(last)
}

pub(super) fn failed(source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Error::ByPeer { source },
        io::ErrorKind::TimedOut => Error::Timeout,
        _ => Error::Unreachable { source },
    }
}
