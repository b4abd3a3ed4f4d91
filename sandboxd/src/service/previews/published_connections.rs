//! Open connections of a published port, and which one is closed at the limit.
//!
//! A connection to a published port needs no credentials, so strangers could exhaust the limit with idle connections. At the
//! limit, a new connection replaces one whose client has sent nothing. If there is none, it replaces the one that has been
//! idle longest, if that is long enough. Connections in use are never closed.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::model::limits;

/// Open connections of one port.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Vec<Arc<Connection>>>);

/// One connection.
#[derive(Debug)]
struct Connection {
    began: Instant,
    /// Milliseconds after `began`.
    active_at: AtomicU64,
    has_sent: AtomicBool,
    closed: CancellationToken,
}

/// Slot of an open connection. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Connections {
    /// Takes a slot for a new connection. `None` if all others are in use.
    pub(super) fn admit(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let connection = Arc::new(Connection {
            began: Instant::now(),
            active_at: AtomicU64::new(0),
            has_sent: AtomicBool::new(false),
            closed: CancellationToken::new(),
        });
        let mut connections = self.lock();
        if connections.len() >= limits::MAX_PUBLISHED_CONNECTIONS {
            let at = longest_idle(&connections)?;
            connections.swap_remove(at).closed.cancel();
        }
        connections.push(Arc::clone(&connection));
        drop(connections);
        Some(ConnectionSlot { connections: Arc::clone(self), connection })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Position of the connection to close for a new one.
fn longest_idle(connections: &[Arc<Connection>]) -> Option<usize> {
    let all = connections
        .iter()
        .enumerate()
        .map(|(at, connection)| (connection.has_sent(), connection.idle_for(), at));
    let closable = all.filter(|(has_sent, idle_for, _)| !has_sent || *idle_for >= limits::PUBLISHED_IDLE);
    closable
        .min_by_key(|(has_sent, idle_for, _)| (*has_sent, std::cmp::Reverse(*idle_for)))
        .map(|(.., at)| at)
}

impl Connection {
    fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    fn idle_for(&self) -> Duration {
        let active_at = Duration::from_millis(self.active_at.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(active_at)
    }

    fn note_traffic(&self) {
        self.active_at.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

impl ConnectionSlot {
    /// Resolves when the connection must be closed for another one.
    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.connection.closed.cancelled()
    }

    /// Wraps the stream, so that its bytes count as use.
    pub(super) fn track<S>(&self, stream: S) -> Tracked<S> {
        Tracked { stream, connection: Arc::clone(&self.connection) }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

/// Client's end of a connection.
pub(super) struct Tracked<S> {
    stream: S,
    connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.has_sent.store(true, Ordering::Relaxed);
            self.connection.note_traffic();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.connection.note_traffic();
        }
        polled
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
    use super::*;

    #[test]
    fn a_silent_connection_is_replaced_and_one_in_use_is_not() {
        let connections = Arc::new(Connections::default());
        let slots: Vec<ConnectionSlot> =
            (0..limits::MAX_PUBLISHED_CONNECTIONS).map(|_| connections.admit().unwrap()).collect();
        for slot in slots.iter().filter(|one| !Arc::ptr_eq(&one.connection, &slots[7].connection)) {
            slot.connection.has_sent.store(true, Ordering::Relaxed);
        }
        let new = connections.admit().unwrap();
        new.connection.has_sent.store(true, Ordering::Relaxed);
        let closed = |slot: &ConnectionSlot| slot.connection.closed.is_cancelled();
        assert_eq!(slots.iter().position(closed), Some(7));
        assert!(connections.admit().is_none(), "all others are in use");
        drop(new);
        let new = connections.admit();
        assert!(new.is_some() && slots.iter().filter(|one| closed(one)).count() == 1);
        drop((new, slots));
        assert!(connections.lock().is_empty());
    }
}
