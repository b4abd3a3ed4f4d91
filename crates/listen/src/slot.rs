//! Slots of connections, and the eviction of idle connections for new ones.
//!
//! A client that sends a head byte by byte, or nothing, holds a slot for the time limit of a head. With enough
//! connections it could hold all of them. So if no slot is free, the connection that has been idle longest is closed.
//! Connections of authenticated clients are closed last, so that unknown clients cannot close them. A connection with
//! a current request is never closed here, however slow it is. Its handler must enforce its own limits.
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture, WaitForCancellationFutureOwned};

/// Stands for the unknown length of a chunked body.
const CHUNKED: u64 = u64::MAX;

/// The problem of a request whose head was not checked from its start.
pub(crate) const UNSEEN: &str = "a request after a chunked request must wait for its response";

/// All idle connections: unauthenticated clients first, then by idle time.
#[derive(Debug, Clone, Default)]
pub struct IdleConnections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    list: Mutex<List>,
    available: Notify,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    idle: BTreeMap<EvictionOrder, CancellationToken>,
}

/// The order in which connections are evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionOrder {
    is_authenticated: bool,
    number: u64,
}

impl IdleConnections {
    /// Registers a connection, which is idle at first. `free` are the unused permits.
    pub(crate) fn register(&self, free: Arc<Semaphore>) -> Arc<ConnectionSlot> {
        let slot = ConnectionSlot {
            idle: self.clone(),
            free,
            order: Mutex::default(),
            is_authenticated: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            head_error: OnceLock::new(),
            is_upgraded: AtomicBool::new(false),
            evicted: CancellationToken::new(),
        };
        slot.become_idle();
        Arc::new(slot)
    }

    /// Closes the connection that has been idle longest, if there is one.
    pub(crate) fn close_longest_idle(&self) {
        if let Some((_, evicted)) = lock(&self.0.list).idle.pop_first() {
            evicted.cancel();
        }
    }

    /// Waits until there may be an idle connection.
    pub(crate) async fn available(&self) {
        self.0.available.notified().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slot of a connection. Dropping it releases the slot.
#[derive(Debug)]
pub struct ConnectionSlot {
    idle: IdleConnections,
    free: Arc<Semaphore>,
    /// Set while the connection is idle.
    order: Mutex<Option<EvictionOrder>>,
    is_authenticated: AtomicBool,
    requests: AtomicU64,
    /// Number of heads that were checked completely.
    heads: AtomicU64,
    /// Length of the last request's body, or [`CHUNKED`].
    body_bytes: AtomicU64,
    head_error: OnceLock<&'static str>,
    is_upgraded: AtomicBool,
    evicted: CancellationToken,
}

impl ConnectionSlot {
    /// Closes the connection, also during a response and after an upgrade. For a handler that enforces its own time limit:
    /// hyper does not poll a response's body while its client does not read.
    pub fn close(&self) {
        self.evicted.cancel();
    }

    /// As [`Self::evicted`], without a borrow.
    pub(crate) fn evicted_owned(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }

    /// Resolves when the connection must close.
    pub fn evicted(&self) -> WaitForCancellationFuture<'_> {
        self.evicted.cancelled()
    }

    /// Marks the connection as busy until the result is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.leave_idle();
        Busy(Arc::clone(self))
    }

    /// The connection uses another protocol after this response. It never becomes idle again, so it is neither timed
    /// out nor closed for a new connection.
    pub(crate) fn upgrade(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    /// Marks the client as authenticated, so that connections of others are closed first.
    pub fn mark_authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Whether no slot is free and this connection is among the next to be closed after its request. Its client
    /// should then not send another request on it.
    pub fn is_short_lived(&self) -> bool {
        let has_unauthenticated = || {
            lock(&self.idle.0.list).idle.first_key_value().is_some_and(|(order, _)| !order.is_authenticated)
        };
        self.free.available_permits() == 0
            && !(self.is_authenticated.load(Ordering::Relaxed) && has_unauthenticated())
    }

    /// Whether there is no current request.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.order).is_some() || self.evicted.is_cancelled()
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Records the length of the last request's body, or `None` if it is chunked.
    pub(crate) fn expect_body(&self, bytes: Option<u64>) {
        self.body_bytes.store(bytes.unwrap_or(CHUNKED), Ordering::Relaxed);
    }

    /// See [`Self::expect_body`].
    pub(crate) fn body_bytes(&self) -> Option<u64> {
        Some(self.body_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != CHUNKED)
    }

    /// Records that another head was checked to its end.
    pub(crate) fn head_checked(&self) {
        self.heads.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the handler has received every request whose head was checked.
    pub(crate) fn has_taken_every_head(&self) -> bool {
        self.requests() >= self.heads.load(Ordering::Relaxed)
    }

    /// Records a problem with the current head. The connection ends with the response to it.
    pub(crate) fn reject_head(&self, problem: &'static str) {
        // The first problem is reported.
        let _ = self.head_error.set(problem);
    }

    /// Returns the problem with the head of the last request.
    pub(crate) fn head_problem(&self) -> Option<&'static str> {
        let is_unseen = self.requests() > self.heads.load(Ordering::Relaxed);
        self.head_error.get().copied().or(is_unseen.then_some(UNSEEN))
    }

    /// Whether the connection now uses another protocol.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.load(Ordering::Relaxed)
    }

    fn become_idle(&self) {
        let mut list = lock(&self.idle.0.list);
        let order = EvictionOrder {
            is_authenticated: self.is_authenticated.load(Ordering::Relaxed),
            number: list.next,
        };
        list.next += 1;
        list.idle.insert(order, self.evicted.clone());
        *lock(&self.order) = Some(order);
        drop(list);
        self.idle.0.available.notify_one();
    }

    fn leave_idle(&self) {
        if let Some(order) = lock(&self.order).take() {
            lock(&self.idle.0.list).idle.remove(&order);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.leave_idle();
    }
}

/// A current request. Dropping it marks the end of its response.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionSlot>);

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.0.is_upgraded() {
            self.0.become_idle();
        }
    }
}

/// A response body that keeps its connection busy until its end.
#[derive(Debug)]
pub struct BusyBody<B> {
    body: B,
    _busy: Busy,
}

impl<B> BusyBody<B> {
    /// Wraps a response's body.
    pub fn new(body: B, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_is_closed_and_busy_ones_are_kept() {
        let idle = IdleConnections::default();
        let slots: Vec<_> = (0..4).map(|_| idle.register(no_permits())).collect();
        let gone = || slots.iter().map(|slot| slot.evicted.is_cancelled()).collect::<Vec<_>>();
        let first = slots[0].busy();
        idle.close_longest_idle();
        assert_eq!(gone(), [false, true, false, false]);
        drop(first);
        idle.close_longest_idle();
        idle.close_longest_idle();
        assert_eq!(gone(), [false, true, true, true], "it has been idle since its request ended");
        idle.close_longest_idle();
        idle.close_longest_idle();
        assert_eq!(gone(), [true; 4]);
    }

    #[test]
    fn unauthenticated_connections_are_closed_first() {
        let idle = IdleConnections::default();
        let slots: Vec<_> = (0..3).map(|_| idle.register(no_permits())).collect();
        let gone = || slots.iter().map(|slot| slot.evicted.is_cancelled()).collect::<Vec<_>>();
        let request = slots[0].busy();
        slots[0].mark_authenticated();
        assert!(!slots[0].is_short_lived() && slots[1].is_short_lived());
        drop(request);
        idle.close_longest_idle();
        idle.close_longest_idle();
        assert_eq!(gone(), [false, true, true]);
        assert!(slots[0].is_short_lived(), "no unauthenticated connection is left");
        idle.close_longest_idle();
        assert_eq!(gone(), [true; 3]);
        let alone = idle.register(Arc::new(Semaphore::new(1)));
        assert!(!alone.is_short_lived(), "a slot is free");
    }

    fn no_permits() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(0))
    }

    #[test]
    fn a_closed_connection_is_removed() {
        let idle = IdleConnections::default();
        drop(idle.register(no_permits()));
        let busy = idle.register(no_permits()).busy();
        assert!(lock(&idle.0.list).idle.is_empty());
        drop(busy);
        assert!(lock(&idle.0.list).idle.is_empty(), "its connection is closed");
    }
}
