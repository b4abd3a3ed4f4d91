//! Time limits for the head of a request, and for an idle connection.
//!
//! hyper has one limit for both, so it would close an idle connection as early as one with a slow head.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::forward::{forward_shutdown, forward_writes};
use crate::slot::ConnectionSlot;

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the whole head of a request, from its first byte. On a new connection from its start.
    pub head: Duration,
    /// For the next request of a connection.
    pub idle: Duration,
}

/// A stream whose reads fail when its client takes too long.
pub(crate) struct TimedStream<S> {
    stream: S,
    slot: Arc<ConnectionSlot>,
    timeouts: Timeouts,
    /// Number of requests before the current wait.
    requests: u64,
    has_begun: bool,
    until: Option<Pin<Box<Sleep>>>,
    /// Set after an upgrade, when nothing else closes the connection.
    closed: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(stream: S, slot: Arc<ConnectionSlot>, timeouts: Timeouts) -> Self {
        Self { stream, slot, timeouts, requests: 0, has_begun: false, until: None, closed: None }
    }

    /// Restarts the wait if there was a request since.
    fn update(&mut self) {
        let requests = self.slot.requests();
        if requests != self.requests {
            (self.requests, self.has_begun, self.until) = (requests, false, None);
        }
    }

    /// The result of a read of an upgraded connection, unless the connection must close.
    fn unless_closed(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let closed = self.closed.get_or_insert_with(|| Box::pin(self.slot.evicted_owned()));
        match closed.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            Poll::Pending => polled,
        }
    }

    fn has_expired(&mut self, context: &mut Context<'_>) -> bool {
        let is_head = self.has_begun || self.requests == 0;
        let limit = if is_head { self.timeouts.head } else { self.timeouts.idle };
        let until = self.until.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        until.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.slot.is_upgraded() {
            return this.unless_closed(context, polled);
        }
        this.update();
        if !this.slot.is_idle() {
            return polled;
        }
        let has_come = buffer.filled().len() > before;
        if has_come && !this.has_begun {
            // The first head of a new connection has the rest of its time.
            this.has_begun = true;
            this.until = this.until.take().filter(|_| this.requests == 0);
        }
        if this.has_expired(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(polled)?;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    forward_writes!();
    forward_shutdown!();
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::Semaphore;
    use tokio::time::advance;

    use super::*;
    use crate::slot::IdleConnections;

    const TIMEOUTS: Timeouts = Timeouts { head: Duration::from_secs(10), idle: Duration::from_secs(125) };
    const NEARLY: Duration = Duration::from_millis(1);

    fn timed() -> (DuplexStream, TimedStream<DuplexStream>, Arc<ConnectionSlot>) {
        let (client, server) = duplex(1024);
        let slot = IdleConnections::default().register(Arc::new(Semaphore::new(1)));
        (client, TimedStream::new(server, Arc::clone(&slot), TIMEOUTS), slot)
    }

    /// Whether a read still waits after `time`. Otherwise the error is its result.
    async fn still_waits(
        timed: &mut TimedStream<DuplexStream>,
        time: Duration,
    ) -> Result<(), io::Result<usize>> {
        let mut buffer = [0; 64];
        let mut read = std::pin::pin!(timed.read(&mut buffer));
        for step in [Duration::ZERO, time] {
            advance(step).await;
            if let Poll::Ready(read) = poll!(read.as_mut()) {
                return Err(read);
            }
        }
        Ok(())
    }

    fn has_expired(waited: Result<(), io::Result<usize>>) -> bool {
        matches!(waited, Err(Err(error)) if error.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_more_time_than_a_head() {
        let (mut client, mut timed, slot) = timed();
        client.write_all(b"head").await.unwrap();
        assert!(matches!(still_waits(&mut timed, Duration::ZERO).await, Err(Ok(4))));
        let request = slot.busy();
        assert!(still_waits(&mut timed, TIMEOUTS.idle * 10).await.is_ok(), "its request is under way");
        drop(request);
        assert!(still_waits(&mut timed, TIMEOUTS.idle - NEARLY).await.is_ok());
        client.write_all(b"he").await.unwrap();
        assert!(matches!(still_waits(&mut timed, Duration::ZERO).await, Err(Ok(2))));
        assert!(still_waits(&mut timed, TIMEOUTS.head - NEARLY).await.is_ok());
        assert!(has_expired(still_waits(&mut timed, NEARLY).await), "a head has its own limit");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_expires() {
        let (client, mut timed, slot) = timed();
        assert!(still_waits(&mut timed, TIMEOUTS.head - NEARLY).await.is_ok());
        assert!(has_expired(still_waits(&mut timed, NEARLY).await), "a new one has the time of a head");
        drop((client, slot));
        let (_client, mut timed, slot) = self::timed();
        drop(slot.busy());
        assert!(still_waits(&mut timed, TIMEOUTS.idle - NEARLY).await.is_ok());
        assert!(has_expired(still_waits(&mut timed, NEARLY).await));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upgraded_connection_has_no_limit() {
        let (mut client, mut timed, slot) = timed();
        let request = slot.busy();
        slot.upgrade();
        drop(request);
        client.write_all(b"x").await.unwrap();
        assert!(matches!(still_waits(&mut timed, Duration::ZERO).await, Err(Ok(1))));
        assert!(still_waits(&mut timed, TIMEOUTS.idle * 10).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_head_gets_no_more_time() {
        let (mut client, mut timed, slot) = timed();
        drop(slot.busy());
        for _ in 0..9 {
            client.write_all(b"x").await.unwrap();
            assert!(matches!(still_waits(&mut timed, Duration::ZERO).await, Err(Ok(1))));
            assert!(still_waits(&mut timed, TIMEOUTS.head / 10).await.is_ok());
        }
        assert!(has_expired(still_waits(&mut timed, TIMEOUTS.head / 10).await));
    }
}
