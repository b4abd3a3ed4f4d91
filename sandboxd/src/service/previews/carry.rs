//! Carries bytes between a client and a port of a sandbox.
//!
//! A TCP connection is closed in each direction separately. A program in a sandbox may ignore that its client has gone, so
//! once one direction is closed, the other one must not be silent for long.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::model::limits;

/// Bytes in each direction between a read and a write.
const COPY_BYTES: usize = 64 * 1024;

/// Carries bytes until both directions are closed, or one is and the other has been silent for
/// [`HALF_CLOSED_SILENCE`](limits::HALF_CLOSED_SILENCE). Both connections are closed at the end.
pub async fn carry(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    carry_with(client, server, limits::HALF_CLOSED_SILENCE).await
}

async fn carry_with(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    max_silence: Duration,
) -> io::Result<()> {
    let traffic = Traffic::new();
    let mut client = Watched { stream: client, traffic: &traffic };
    let mut server = Watched { stream: server, traffic: &traffic };
    tokio::select! {
        carried = copy_bidirectional_with_sizes(&mut client, &mut server, COPY_BYTES, COPY_BYTES) => carried.map(drop),
        () = traffic.silent_after_close(max_silence) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Traffic of both directions.
struct Traffic {
    moved_at: Mutex<Instant>,
    closed: Notify,
}

impl Traffic {
    fn new() -> Self {
        Self { moved_at: Mutex::new(Instant::now()), closed: Notify::new() }
    }

    fn moved_at(&self) -> Instant {
        *self.moved_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn record(&self, bytes: usize) {
        *self.moved_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Instant::now();
        if bytes == 0 {
            self.closed.notify_one();
        }
    }

    /// Waits until a direction is closed and then nothing has moved for `max`.
    async fn silent_after_close(&self, max: Duration) {
        self.closed.notified().await;
        loop {
            let until = self.moved_at() + max;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// One end of a connection.
struct Watched<'a, S> {
    stream: S,
    traffic: &'a Traffic,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.traffic.record(buffer.filled().len() - before);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(60);

    /// The far ends of a carried connection, and the task that carries it.
    fn carried() -> (DuplexStream, DuplexStream, JoinHandle<io::Result<()>>) {
        let (client, near_client) = duplex(1024);
        let (near_server, server) = duplex(1024);
        (client, server, tokio::spawn(carry_with(near_client, near_server, SILENCE)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_closes_does_not_keep_the_connection() {
        let (client, server, carrying) = carried();
        drop(client);
        let began = Instant::now();
        let error = carrying.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= SILENCE && began.elapsed() < SILENCE * 2);
        drop(server);
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_closed_connection_carries_what_still_comes() {
        let (mut client, mut server, carrying) = carried();
        client.shutdown().await.unwrap();
        for _ in 0..5 {
            tokio::time::sleep(SILENCE / 2).await;
            server.write_all(b"more").await.unwrap();
            let mut piece = [0; 4];
            client.read_exact(&mut piece).await.unwrap();
        }
        drop(server);
        carrying.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_connection_may_be_silent() {
        let (mut client, mut server, carrying) = carried();
        tokio::time::sleep(SILENCE * 10).await;
        client.write_all(b"late").await.unwrap();
        let mut piece = [0; 4];
        server.read_exact(&mut piece).await.unwrap();
        drop((client, server));
        carrying.await.unwrap().unwrap();
    }
}
