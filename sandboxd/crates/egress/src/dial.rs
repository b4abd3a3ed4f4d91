//! Connections to addresses that were checked.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Error;
use sandboxd_model::limits;

/// A connection to a host. Whoever drops it before [`finish`](Self::finish) resets it.
#[derive(Debug)]
pub struct Far {
    pub(super) stream: TcpStream,
    /// What came before anybody could read it.
    pub(super) early: Bytes,
    is_finished: bool,
}

impl Far {
    pub(super) fn new(stream: TcpStream, early: Bytes) -> Self {
        // It may have broken already, which the first read tells.
        let _ = stream.set_nodelay(true);
        Self { stream, early, is_finished: false }
    }

    /// Both directions have ended in order.
    pub(super) fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.stream.set_zero_linger();
        }
    }
}

/// Connects to the first of the addresses that answers, one after the other.
pub(super) async fn first(addresses: &[SocketAddr]) -> Result<Far, Error> {
    let began = Instant::now();
    let mut last = Error::Timeout;
    for address in addresses {
        let left = limits::EGRESS_CONNECT.saturating_sub(began.elapsed()).min(limits::EGRESS_CONNECT_EACH);
        match timeout(left, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(Far::new(stream, Bytes::new())),
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
