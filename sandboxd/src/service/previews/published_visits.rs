//! Who is connected to a published port.
//!
//! Whoever reaches the port needs nothing to connect, so strangers could take all its places by connecting. Where none is
//! left, a connection on which the visitor has said nothing is closed for the next one, then the one on which nothing has
//! moved for longest, if that is long. Those that are in use are never closed.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::model::limits;

/// Those of one port.
#[derive(Debug, Default)]
pub(super) struct Visits(Mutex<Vec<Arc<Visit>>>);

/// One connection.
#[derive(Debug)]
struct Visit {
    began: Instant,
    /// Milliseconds after `began`.
    moved_at: AtomicU64,
    has_spoken: AtomicBool,
    closed: CancellationToken,
}

/// A connection's place among the visits. Its drop gives it up.
#[derive(Debug)]
pub(super) struct Entered {
    visits: Arc<Visits>,
    visit: Arc<Visit>,
}

impl Visits {
    /// A place for another connection; `None` where all others are in use.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Entered> {
        let visit = Arc::new(Visit {
            began: Instant::now(),
            moved_at: AtomicU64::new(0),
            has_spoken: AtomicBool::new(false),
            closed: CancellationToken::new(),
        });
        let mut visits = self.lock();
        if visits.len() >= limits::MAX_PUBLISHED_CONNECTIONS {
            let place = longest_idle(&visits)?;
            visits.swap_remove(place).closed.cancel();
        }
        visits.push(Arc::clone(&visit));
        drop(visits);
        Some(Entered { visits: Arc::clone(self), visit })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Visit>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn longest_idle(visits: &[Arc<Visit>]) -> Option<usize> {
    let idle = visits.iter().enumerate().map(|(at, visit)| (visit.has_spoken(), visit.silent_for(), at));
    let closable = idle.filter(|(has_spoken, silent, _)| !has_spoken || *silent >= limits::PUBLISHED_IDLE);
    closable
        .min_by_key(|(has_spoken, silent, _)| (*has_spoken, std::cmp::Reverse(*silent)))
        .map(|(.., at)| at)
}

impl Visit {
    fn has_spoken(&self) -> bool {
        self.has_spoken.load(Ordering::Relaxed)
    }

    fn silent_for(&self) -> Duration {
        let moved_at = Duration::from_millis(self.moved_at.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(moved_at)
    }

    fn moved(&self) {
        self.moved_at.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}

impl Entered {
    /// Resolves when the connection is to make place.
    pub(super) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.visit.closed.cancelled()
    }

    /// A stream whose bytes count as use.
    pub(super) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched { stream, visit: Arc::clone(&self.visit) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.visits.lock().retain(|other| !Arc::ptr_eq(other, &self.visit));
    }
}

/// A visitor's end of a connection.
pub(super) struct Watched<S> {
    stream: S,
    visit: Arc<Visit>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.visit.has_spoken.store(true, Ordering::Relaxed);
            self.visit.moved();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.visit.moved();
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
    fn those_who_said_nothing_make_place_and_those_in_use_do_not() {
        let visits = Arc::new(Visits::default());
        let entered: Vec<Entered> =
            (0..limits::MAX_PUBLISHED_CONNECTIONS).map(|_| visits.enter().unwrap()).collect();
        for entered in entered.iter().filter(|one| !Arc::ptr_eq(&one.visit, &entered[7].visit)) {
            entered.visit.has_spoken.store(true, Ordering::Relaxed);
        }
        let newcomer = visits.enter().unwrap();
        newcomer.visit.has_spoken.store(true, Ordering::Relaxed);
        let closed = |entered: &Entered| entered.visit.closed.is_cancelled();
        assert_eq!(entered.iter().position(closed), Some(7));
        assert!(visits.enter().is_none(), "all others are in use");
        drop(newcomer);
        let newcomer = visits.enter();
        assert!(newcomer.is_some() && entered.iter().filter(|one| closed(one)).count() == 1);
        drop((newcomer, entered));
        assert!(visits.lock().is_empty());
    }
}
