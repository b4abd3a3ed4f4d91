//! How long a client may take to send the head of a request, and how long a kept connection waits for one.
//!
//! hyper has one limit for both, so a connection that waits between two requests would be closed as soon as a slow head.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::waiting::Seat;

/// What is waited for, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// For the whole head of a request, from its first byte; on a new connection from its beginning.
    pub head: Duration,
    /// For the next request of a connection.
    pub idle: Duration,
}

/// A connection that fails to be read when its client takes too long.
pub(crate) struct Paced<S> {
    stream: S,
    seat: Arc<Seat>,
    pace: Pace,
    /// The requests before the one that is waited for.
    requests: u64,
    has_begun: bool,
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, seat: Arc<Seat>, pace: Pace) -> Self {
        Self { stream, seat, pace, requests: 0, has_begun: false, until: None }
    }

    /// Begins to wait anew if there was a request since.
    fn follow(&mut self) {
        let requests = self.seat.requests();
        if requests != self.requests {
            (self.requests, self.has_begun, self.until) = (requests, false, None);
        }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let is_head = self.has_begun || self.requests == 0;
        let most = if is_head { self.pace.head } else { self.pace.idle };
        let until = self.until.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + most)));
        until.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.follow();
        if !this.seat.is_waiting() {
            return polled;
        }
        let has_come = buffer.filled().len() > before;
        if has_come && !this.has_begun {
            // A new connection's first head has the time that is left of it.
            this.has_begun = true;
            this.until = this.until.take().filter(|_| this.requests == 0);
        }
        if this.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(polled)?;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::Semaphore;
    use tokio::time::advance;

    use super::*;
    use crate::waiting::Waiting;

    const PACE: Pace = Pace { head: Duration::from_secs(10), idle: Duration::from_secs(125) };
    const NEARLY: Duration = Duration::from_millis(1);

    fn paced() -> (DuplexStream, Paced<DuplexStream>, Arc<Seat>) {
        let (client, server) = duplex(1024);
        let seat = Waiting::default().sit_down(Arc::new(Semaphore::new(1)));
        (client, Paced::new(server, Arc::clone(&seat), PACE), seat)
    }

    /// Whether a read still waits after `time`; the bytes that came otherwise.
    async fn waits(paced: &mut Paced<DuplexStream>, time: Duration) -> Result<(), io::Result<usize>> {
        let mut buffer = [0; 64];
        let mut read = std::pin::pin!(paced.read(&mut buffer));
        for step in [Duration::ZERO, time] {
            advance(step).await;
            if let Poll::Ready(read) = poll!(read.as_mut()) {
                return Err(read);
            }
        }
        Ok(())
    }

    fn is_over(waited: Result<(), io::Result<usize>>) -> bool {
        matches!(waited, Err(Err(error)) if error.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_connection_has_longer_than_a_head() {
        let (mut client, mut paced, seat) = paced();
        client.write_all(b"head").await.unwrap();
        assert!(matches!(waits(&mut paced, Duration::ZERO).await, Err(Ok(4))));
        let request = seat.busy();
        assert!(waits(&mut paced, PACE.idle * 10).await.is_ok(), "its request is under way");
        drop(request);
        assert!(waits(&mut paced, PACE.idle - NEARLY).await.is_ok());
        client.write_all(b"he").await.unwrap();
        assert!(matches!(waits(&mut paced, Duration::ZERO).await, Err(Ok(2))));
        assert!(waits(&mut paced, PACE.head - NEARLY).await.is_ok());
        assert!(is_over(waits(&mut paced, NEARLY).await), "a head has its own limit");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nobody_asks_is_over() {
        let (client, mut paced, seat) = paced();
        assert!(waits(&mut paced, PACE.head - NEARLY).await.is_ok());
        assert!(is_over(waits(&mut paced, NEARLY).await), "a new one has the time of a head");
        drop((client, seat));
        let (_client, mut paced, seat) = self::paced();
        drop(seat.busy());
        assert!(waits(&mut paced, PACE.idle - NEARLY).await.is_ok());
        assert!(is_over(waits(&mut paced, NEARLY).await));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upgraded_connection_has_no_limit() {
        let (mut client, mut paced, seat) = paced();
        let request = seat.busy();
        seat.upgrade();
        drop(request);
        client.write_all(b"x").await.unwrap();
        assert!(matches!(waits(&mut paced, Duration::ZERO).await, Err(Ok(1))));
        assert!(waits(&mut paced, PACE.idle * 10).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_has_no_more_time() {
        let (mut client, mut paced, seat) = paced();
        drop(seat.busy());
        for _ in 0..9 {
            client.write_all(b"x").await.unwrap();
            assert!(matches!(waits(&mut paced, Duration::ZERO).await, Err(Ok(1))));
            assert!(waits(&mut paced, PACE.head / 10).await.is_ok());
        }
        assert!(is_over(waits(&mut paced, PACE.head / 10).await));
    }
}
