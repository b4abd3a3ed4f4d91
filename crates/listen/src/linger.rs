//! A connection that ends so that its client gets to read the last answer.
//!
//! An answer may come before the request's body has: to one that is too large, to a caller without a token.
//! A socket closed with bytes unread makes the kernel reset the connection, and the reset overtakes the
//! answer (RFC 9112 section 9.6). So the door stops sending, and throws away what still comes until the
//! client hangs up or [`LINGER`] is over, or the program is asked to stop.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the end of a connection waits for a client that still sends, so that it can read the answer.
pub const LINGER: Duration = Duration::from_secs(2);

/// Room for what is thrown away at once.
const SCRATCH_BYTES: usize = 4096;

/// A stream whose shutdown lingers.
pub struct Lingering<S> {
    stream: S,
    limit: Box<dyn Fn() -> Duration + Send>,
    stop: CancellationToken,
    /// Set when nothing more is sent.
    until: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S: Unpin> Lingering<S> {
    /// Of a connection; `stop` ends the lingering too.
    pub fn new(stream: S, stop: CancellationToken) -> Self {
        Self::within(|| LINGER, stream, stop)
    }

    /// Of one whose client has the time to hang up that `limit` says when nothing more is sent.
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
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

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
            // However it ends, the client has hung up.
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
