//! Connections on which nobody asks for anything just now, so that a newcomer finds a place.
//!
//! Whoever sends a head byte by byte, or nothing, has a place for as long as a head may take, and with enough connections
//! all of them. So where no place is left the connection that has waited longest is closed, and those whose callers have
//! shown that they may ask come last: strangers do not close a known client's kept connection. One whose request is under
//! way is never closed, however slow it is: that is the business of whoever answers it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// In place of the length of a body that comes in chunks.
const CHUNKS: u64 = u64::MAX;

/// What is wrong with a request whose head was not seen from its beginning.
pub(crate) const UNSEEN: &str = "a request behind a chunked one must wait for the answer to that";

/// All of them, strangers first and then by how long they have waited.
#[derive(Debug, Clone, Default)]
pub struct Waiting(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    list: Mutex<List>,
    another: Notify,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    waiting: BTreeMap<Turn, CancellationToken>,
}

/// Whose connection is closed before whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    is_known: bool,
    number: u64,
}

impl Waiting {
    /// A place for a connection, which waits from now on; `free` are the places that nobody has.
    pub(crate) fn sit_down(&self, free: Arc<Semaphore>) -> Arc<Seat> {
        let seat = Seat {
            waiting: self.clone(),
            free,
            turn: Mutex::default(),
            is_known: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            odd_head: OnceLock::new(),
            is_upgraded: AtomicBool::new(false),
            hung_up: CancellationToken::new(),
        };
        seat.wait();
        Arc::new(seat)
    }

    /// Hangs up on the one that has waited longest, if there is one.
    pub(crate) fn hang_up_on_one(&self) {
        if let Some((_, hung_up)) = lock(&self.0.list).waiting.pop_first() {
            hung_up.cancel();
        }
    }

    /// Resolves when there may be another one.
    pub(crate) async fn another(&self) {
        self.0.another.notified().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection's place. Its drop gives it up.
#[derive(Debug)]
pub struct Seat {
    waiting: Waiting,
    free: Arc<Semaphore>,
    /// In the list, while it waits.
    turn: Mutex<Option<Turn>>,
    is_known: AtomicBool,
    requests: AtomicU64,
    /// Heads of requests that were seen from their beginnings to their ends.
    heads: AtomicU64,
    /// Of the last request, or [`CHUNKS`].
    body_bytes: AtomicU64,
    odd_head: OnceLock<&'static str>,
    is_upgraded: AtomicBool,
    hung_up: CancellationToken,
}

impl Seat {
    /// Resolves when the connection must make place.
    pub fn hung_up(&self) -> WaitForCancellationFuture<'_> {
        self.hung_up.cancelled()
    }

    /// For as long as a request is under way.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.stop_waiting();
        Busy(Arc::clone(self))
    }

    /// The connection speaks another protocol from the end of this answer. It never waits for a request again, so it is
    /// neither closed as idle nor closed for a newcomer.
    pub(crate) fn upgrade(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    /// Its caller has shown that it may ask, so strangers' connections are closed before this one.
    pub fn vouch(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Whether no place is free and this connection is among the next to be closed when its request is over, so that its
    /// caller is better told not to ask on it again.
    pub fn is_short_lived(&self) -> bool {
        let has_strangers =
            || lock(&self.waiting.0.list).waiting.first_key_value().is_some_and(|(turn, _)| !turn.is_known);
        self.free.available_permits() == 0 && !(self.is_known.load(Ordering::Relaxed) && has_strangers())
    }

    /// Whether no request is under way.
    pub(crate) fn is_waiting(&self) -> bool {
        lock(&self.turn).is_some() || self.hung_up.is_cancelled()
    }

    /// How many requests there have been.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// What is known of the body of the request that was taken last: its length, unless it comes in chunks.
    pub(crate) fn expect_body(&self, bytes: Option<u64>) {
        self.body_bytes.store(bytes.unwrap_or(CHUNKS), Ordering::Relaxed);
    }

    /// See [`Self::expect_body`].
    pub(crate) fn body_bytes(&self) -> Option<u64> {
        Some(self.body_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != CHUNKS)
    }

    /// The head of another request was seen to its end.
    pub(crate) fn saw_head(&self) {
        self.heads.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is no request whose head was seen and which nobody has begun to answer.
    pub(crate) fn has_taken_every_head(&self) -> bool {
        self.requests() >= self.heads.load(Ordering::Relaxed)
    }

    /// Something is wrong with the head that is read now, so the connection ends with the answer to it.
    pub(crate) fn odd_head(&self, problem: &'static str) {
        // The first problem is the one that is reported.
        let _ = self.odd_head.set(problem);
    }

    /// What is wrong with the head of the request that was taken last.
    pub(crate) fn problem_of_head(&self) -> Option<&'static str> {
        let is_unseen = self.requests() > self.heads.load(Ordering::Relaxed);
        self.odd_head.get().copied().or(is_unseen.then_some(UNSEEN))
    }

    /// Whether the connection speaks another protocol now.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        let mut list = lock(&self.waiting.0.list);
        let turn = Turn { is_known: self.is_known.load(Ordering::Relaxed), number: list.next };
        list.next += 1;
        list.waiting.insert(turn, self.hung_up.clone());
        *lock(&self.turn) = Some(turn);
        drop(list);
        self.waiting.0.another.notify_one();
    }

    fn stop_waiting(&self) {
        if let Some(turn) = lock(&self.turn).take() {
            lock(&self.waiting.0.list).waiting.remove(&turn);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

/// A request under way. Its drop is the end of its answer.
#[derive(Debug)]
pub struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        if !self.0.is_upgraded() {
            self.0.wait();
        }
    }
}

/// An answer on its connection, which is busy with the request until the answer's end.
#[derive(Debug)]
pub struct BusyBody<B> {
    body: B,
    _busy: Busy,
}

impl<B> BusyBody<B> {
    /// Of an answer's body.
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
    fn the_one_that_has_waited_longest_goes_first_and_nobody_whose_request_is_under_way() {
        let waiting = Waiting::default();
        let seats: Vec<_> = (0..4).map(|_| waiting.sit_down(no_place())).collect();
        let gone = || seats.iter().map(|seat| seat.hung_up.is_cancelled()).collect::<Vec<_>>();
        let first = seats[0].busy();
        waiting.hang_up_on_one();
        assert_eq!(gone(), [false, true, false, false]);
        drop(first);
        waiting.hang_up_on_one();
        waiting.hang_up_on_one();
        assert_eq!(gone(), [false, true, true, true], "it has waited since its request was over");
        waiting.hang_up_on_one();
        waiting.hang_up_on_one();
        assert_eq!(gone(), [true; 4]);
    }

    #[test]
    fn strangers_go_before_those_who_have_shown_that_they_may_ask() {
        let waiting = Waiting::default();
        let seats: Vec<_> = (0..3).map(|_| waiting.sit_down(no_place())).collect();
        let gone = || seats.iter().map(|seat| seat.hung_up.is_cancelled()).collect::<Vec<_>>();
        let request = seats[0].busy();
        seats[0].vouch();
        assert!(!seats[0].is_short_lived() && seats[1].is_short_lived());
        drop(request);
        waiting.hang_up_on_one();
        waiting.hang_up_on_one();
        assert_eq!(gone(), [false, true, true]);
        assert!(seats[0].is_short_lived(), "no stranger is left to go before it");
        waiting.hang_up_on_one();
        assert_eq!(gone(), [true; 3]);
        let alone = waiting.sit_down(Arc::new(Semaphore::new(1)));
        assert!(!alone.is_short_lived(), "there is a place");
    }

    fn no_place() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(0))
    }

    #[test]
    fn who_has_left_is_not_hung_up_on() {
        let waiting = Waiting::default();
        drop(waiting.sit_down(no_place()));
        let busy = waiting.sit_down(no_place()).busy();
        assert!(lock(&waiting.0.list).waiting.is_empty());
        drop(busy);
        assert!(lock(&waiting.0.list).waiting.is_empty(), "its connection is gone");
    }
}
