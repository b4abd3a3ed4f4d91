//! A socket within the agent: the proxy's own HTTP at the one end, a tunnel at the other.
//!
//! A pipe alone would not do. When a tunnel is reset, HTTP must not take that for the end of what was sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::carry::Socket;
use crate::limits::INNER_BYTES;

/// One end.
#[derive(Debug)]
pub(crate) struct Inner {
    pipe: DuplexStream,
    was_reset: Arc<AtomicBool>,
}

/// Both ends.
pub(crate) fn pair() -> (Inner, Inner) {
    let (one, other) = duplex(INNER_BYTES);
    let was_reset = Arc::new(AtomicBool::new(false));
    (Inner { pipe: one, was_reset: Arc::clone(&was_reset) }, Inner { pipe: other, was_reset })
}

impl Socket for Inner {
    fn reset(&mut self) {
        self.was_reset.store(true, Ordering::Release);
    }
}

impl AsyncRead for Inner {
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

impl AsyncWrite for Inner {
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
