//! Ends a connection so that its client can read the last response.
//!
//! A response may come before the whole request was received, for example if it is too large or has no token. If a
//! socket is closed with unread data, the kernel resets the connection, and the reset overtakes the response (RFC
//! 9112 section 9.6). So this stream stops sending and discards received data, until the client closes the
//! connection, [`LINGER`] has passed, or the program stops.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::forward::forward_writes;

/// How long the end of a connection waits for a client that still sends, so that it can read the response.
pub const LINGER: Duration = Duration::from_secs(2);

/// Size of the buffer for discarded data.
const SCRATCH_BYTES: usize = 4096;

/// A stream whose shutdown lingers.
pub struct Lingering<S> {
    stream: S,
    limit: Box<dyn Fn() -> Duration + Send>,
    stop: CancellationToken,
    /// Set when sending has ended.
    until: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S: Unpin> Lingering<S> {
    /// Wraps a connection. `stop` ends the lingering early.
    pub fn new(stream: S, stop: CancellationToken) -> Self {
        Self::within(|| LINGER, stream, stop)
    }

    /// Wraps a connection that lingers for at most the time that `limit` returns when sending has ended.
    pub fn within(limit: impl Fn() -> Duration + Send + 'static, stream: S, stop: CancellationToken) -> Self {
        Self { stream, limit: Box::new(limit), stop, until: None }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut S> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    forward_writes!();

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.until.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let (limit, stop) = ((this.limit)(), this.stop.clone());
        let until = this.until.get_or_insert_with(|| {
            Box::pin(async move { drop(timeout(limit, stop.cancelled_owned()).await) })
        });
        let mut scratch = [0; SCRATCH_BYTES];
        loop {
            if until.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            // The client has closed the connection, with or without an error.
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
