//! Connections on which nobody asks for anything just now, so that a newcomer finds a place.
//!
//! Whoever sends a head byte by byte, or nothing, has a place for as long as a head may take, and with enough connections
//! all of them. So where no place is left the connection that has waited longest is hung up on. One whose request is under
//! way never is, however slow it is: that is the business of whoever answers it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// All of them, the one that has waited longest first.
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
    waiting: BTreeMap<u64, CancellationToken>,
}

impl Waiting {
    /// A place for a connection, which waits from now on.
    pub fn sit_down(&self) -> Arc<Seat> {
        let seat =
            Seat { waiting: self.clone(), number: Mutex::default(), hung_up: CancellationToken::new() };
        seat.wait();
        Arc::new(seat)
    }

    /// Hangs up on the one that has waited longest, if there is one.
    pub fn hang_up_on_one(&self) {
        if let Some((_, hung_up)) = lock(&self.0.list).waiting.pop_first() {
            hung_up.cancel();
        }
    }

    /// Resolves when there may be another one.
    pub async fn another(&self) {
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
    /// In the list, while it waits.
    number: Mutex<Option<u64>>,
    hung_up: CancellationToken,
}

impl Seat {
    /// Resolves when the connection must make place.
    pub fn hung_up(&self) -> WaitForCancellationFuture<'_> {
        self.hung_up.cancelled()
    }

    /// For as long as a request is under way.
    pub fn busy(self: &Arc<Self>) -> Busy {
        self.stop_waiting();
        Busy(Arc::clone(self))
    }

    fn wait(&self) {
        let mut list = lock(&self.waiting.0.list);
        let number = list.next;
        list.next += 1;
        list.waiting.insert(number, self.hung_up.clone());
        *lock(&self.number) = Some(number);
        drop(list);
        self.waiting.0.another.notify_one();
    }

    fn stop_waiting(&self) {
        if let Some(number) = lock(&self.number).take() {
            lock(&self.waiting.0.list).waiting.remove(&number);
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
        self.0.wait();
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
        let seats: Vec<_> = (0..4).map(|_| waiting.sit_down()).collect();
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
    fn who_has_left_is_not_hung_up_on() {
        let waiting = Waiting::default();
        drop(waiting.sit_down());
        let busy = waiting.sit_down().busy();
        assert!(lock(&waiting.0.list).waiting.is_empty());
        drop(busy);
        assert!(lock(&waiting.0.list).waiting.is_empty(), "its connection is gone");
    }
}
