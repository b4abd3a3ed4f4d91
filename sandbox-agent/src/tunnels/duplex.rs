//! A socket pair inside the agent: the proxy's own HTTP client at one end, and a tunnel at the other.
//!
//! A plain pipe would not be enough. When a tunnel is reset, the HTTP client must not take that for the end of the
//! data.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::relay::Socket;
use crate::limits::INNER_BYTES;

/// One end of the pair.
#[derive(Debug)]
pub(crate) struct DuplexSocket {
    pipe: DuplexStream,
    was_reset: Arc<AtomicBool>,
}

/// Creates a pair.
pub(crate) fn pair() -> (DuplexSocket, DuplexSocket) {
    let (one, other) = duplex(INNER_BYTES);
    let was_reset = Arc::new(AtomicBool::new(false));
    (DuplexSocket { pipe: one, was_reset: Arc::clone(&was_reset) }, DuplexSocket { pipe: other, was_reset })
}

impl Socket for DuplexSocket {
    fn reset(&mut self) {
        self.was_reset.store(true, Ordering::Release);
    }
}

impl AsyncRead for DuplexSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(context, buffer))?;
        if buffer.filled().len() == before && self.was_reset.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for DuplexSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
