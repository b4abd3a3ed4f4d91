//! Buffered events of a command's stream, released while the client does not read.
//!
//! A connection to an agent buffers a window of events for each stream before it makes the agent wait. A client that does
//! not read would hold that window for minutes, and many such clients would use all memory. Therefore a stream whose next
//! event is not requested for a while drops its events. When the client reads again, they are read again from the
//! agent's log. Nothing is lost: the log keeps unread output for a reader with a position in it, and any other reader
//! gets a gap record.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::StreamExt;
use sandbox_api::CommandId;

use crate::agent::{AgentHandle, Error, EventStream, ReaderId};
use crate::model::command::Record;
use crate::model::{Event, limits};

/// Result of asking a feed for its next event.
#[derive(Debug)]
pub(super) enum Next {
    /// An event. Output comes in pieces of about [`limits::PIECE_BYTES`].
    Event(Event),
    /// The connection failed.
    Broken(Error),
    /// The connection has ended.
    Ended,
    /// There is no connection: it broke, or was never opened.
    Absent,
    /// There is no connection: it was released because the client did not read.
    Released,
}

/// The events of one stream.
#[derive(Debug)]
pub(super) struct Feed {
    agent: AgentHandle,
    command: CommandId,
    reader: ReaderId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: Source,
    /// Rest of the last output.
    rest: std::vec::IntoIter<Record>,
    /// Whether the events can be read again from the agent's log.
    is_repeatable: bool,
    /// Since when the next event is not requested. `None` while it is.
    idle_since: Option<Instant>,
    /// When the agent was last notified that the reader will return.
    reported_at: Instant,
}

enum Source {
    Open(EventStream),
    Absent,
    Released,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Absent => "Absent",
            Self::Released => "Released",
        })
    }
}

/// Marks the feed as not idle while a reader waits for the next event.
struct Waiting<'f>(&'f Feed);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().idle_since = Some(Instant::now());
    }
}

impl Feed {
    pub(super) fn new(agent: AgentHandle, command: CommandId, reader: ReaderId) -> Arc<Self> {
        let state = State {
            source: Source::Absent,
            rest: Vec::new().into_iter(),
            is_repeatable: false,
            idle_since: Some(Instant::now()),
            reported_at: Instant::now(),
        };
        Arc::new(Self { agent, command, reader, state: Mutex::new(state) })
    }

    /// Reads events from a connection from now on.
    pub(super) fn open(&self, events: EventStream) {
        self.lock().source = Source::Open(events);
    }

    /// Drops a connection that broke.
    pub(super) fn close(&self) {
        self.lock().source = Source::Absent;
    }

    /// Allows releasing events from now on, because the agent's log has them too.
    pub(super) fn set_repeatable(&self) {
        self.lock().is_repeatable = true;
    }

    /// Returns the next event. Safe to cancel.
    pub(super) async fn next(&self) -> Next {
        let _waiting = Waiting(self);
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.lock();
        state.idle_since = None;
        if let Some(piece) = state.next_piece() {
            return Poll::Ready(Next::Event(Event::Output(piece)));
        }
        let events = match &mut state.source {
            Source::Open(events) => events,
            Source::Absent => return Poll::Ready(Next::Absent),
            Source::Released => return Poll::Ready(Next::Released),
        };
        let next = match std::task::ready!(events.poll_next_unpin(context)) {
            Some(Ok(Event::Output(records))) => {
                state.rest = records.into_iter();
                Next::Event(Event::Output(state.next_piece().unwrap_or_default()))
            }
            Some(Ok(event)) => Next::Event(event),
            Some(Err(error)) => Next::Broken(error),
            None => Next::Ended,
        };
        Poll::Ready(next)
    }

    /// Since when the feed is idle, if its events can be released.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        state.idle_since.filter(|_| state.is_repeatable && matches!(state.source, Source::Open(_)))
    }

    /// Drops the connection and its events, if the feed is still idle.
    fn release(&self) {
        let mut state = self.lock();
        if state.idle_since.is_none() || !matches!(state.source, Source::Open(_)) {
            return;
        }
        let source = std::mem::replace(&mut state.source, Source::Released);
        let rest = std::mem::take(&mut state.rest);
        state.reported_at = Instant::now();
        drop(state);
        drop((source, rest));
    }

    /// Whether the agent must be notified again that this reader will return.
    fn must_report(&self) -> bool {
        let mut state = self.lock();
        let must =
            matches!(state.source, Source::Released) && state.reported_at.elapsed() >= limits::SLOW_READER;
        if must {
            state.reported_at = Instant::now();
        }
        must
    }

    /// Notifies the agent that this reader will return.
    pub(super) async fn report_slow(&self) -> Result<(), Error> {
        self.agent.reader_is_slow(&self.command, self.reader).await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes records up to the length of a piece, and at least one. `None` if no record is left.
    fn next_piece(&mut self) -> Option<Vec<Record>> {
        let mut bytes = 0;
        let fitting = self.rest.as_slice().iter().take_while(|record| {
            let fits = bytes == 0 || bytes + record.data.len() <= limits::PIECE_BYTES;
            bytes += record.data.len() + limits::RECORD_OVERHEAD_BYTES;
            fits
        });
        let count = fitting.count();
        (count > 0).then(|| self.rest.by_ref().take(count).collect())
    }
}

/// Feeds of all streams.
#[derive(Debug, Default)]
pub(super) struct Feeds(Mutex<Vec<Weak<Feed>>>);

impl Feeds {
    pub(super) fn add(&self, feed: &Arc<Feed>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(feed));
    }

    fn all(&self) -> Vec<Arc<Feed>> {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.retain(|feed| feed.strong_count() > 0);
        feeds.iter().filter_map(Weak::upgrade).collect()
    }

    /// Releases feeds that have been idle too long, and the longest idle of the others until all stay within
    /// [`limits::MAX_UNREAD_BYTES`]. Returns the feeds about whose readers the agent must be notified.
    pub(super) fn sweep(&self) -> Vec<Arc<Feed>> {
        let all = self.all();
        let mut idle: Vec<_> = all.iter().filter_map(|feed| Some((feed.idle_since()?, feed))).collect();
        idle.sort_by_key(|(since, _)| *since);
        let excess = idle.len().saturating_sub(limits::MAX_UNREAD_BYTES / limits::UNREAD_STREAM_BYTES);
        for (at, (since, feed)) in idle.into_iter().enumerate() {
            if at < excess || since.elapsed() >= limits::UNREAD_EVENTS {
                feed.release();
            }
        }
        all.into_iter().filter(|feed| feed.must_report()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::agent;
    use crate::model::command::Stream;

    fn feed(records: Vec<Record>) -> Arc<Feed> {
        let feed = Feed::new(agent::unconnected(), "cmd_0123456789abcdef".parse().unwrap(), ReaderId::next());
        let events = futures::stream::iter([Ok(Event::Output(records))]);
        feed.open(Box::pin(events.chain(futures::stream::pending())));
        feed
    }

    fn record(seq: u64, bytes: usize) -> Record {
        Record { seq, stream: Stream::Stdout, data: Bytes::from(vec![b'x'; bytes]), stage: None }
    }

    async fn next_seqs(feed: &Feed) -> Vec<u64> {
        match feed.next().await {
            Next::Event(Event::Output(records)) => records.iter().map(|record| record.seq).collect(),
            other => panic!("expected output, found {other:?}"),
        }
    }

    #[tokio::test]
    async fn output_comes_in_pieces() {
        let feed = feed(vec![record(1, limits::PIECE_BYTES * 2), record(2, 10), record(3, 10)]);
        assert_eq!(next_seqs(&feed).await, [1], "a record is never cut");
        assert_eq!(next_seqs(&feed).await, [2, 3]);
    }

    #[tokio::test]
    async fn idle_events_are_released_if_they_can_be_read_again() {
        let feed = feed(vec![record(1, limits::PIECE_BYTES), record(2, limits::PIECE_BYTES)]);
        assert_eq!(next_seqs(&feed).await, [1]);
        assert!(feed.idle_since().is_none(), "only this connection has the events");
        feed.set_repeatable();
        assert!(feed.idle_since().is_some());
        feed.release();
        assert!(matches!(feed.next().await, Next::Released));
    }

    #[tokio::test]
    async fn a_feed_with_a_waiting_reader_is_kept() {
        let feed = feed(vec![record(1, 10)]);
        feed.set_repeatable();
        assert_eq!(next_seqs(&feed).await, [1]);
        let mut next = Box::pin(feed.next());
        assert!(futures::poll!(next.as_mut()).is_pending());
        feed.release();
        assert!(futures::poll!(next.as_mut()).is_pending(), "the command itself is silent");
    }

    #[tokio::test]
    async fn idle_feeds_stay_within_the_total_bound() {
        let most = limits::MAX_UNREAD_BYTES / limits::UNREAD_STREAM_BYTES;
        let (feeds, mut kept) = (Feeds::default(), Vec::new());
        for _ in 0..most + 5 {
            let feed = feed(vec![record(1, 10)]);
            feed.set_repeatable();
            feeds.add(&feed);
            kept.push(feed);
        }
        feeds.sweep();
        let open = kept.iter().filter(|feed| feed.idle_since().is_some()).count();
        assert_eq!(open, most);
        assert!(
            kept[..5].iter().all(|feed| feed.idle_since().is_none()),
            "the longest idle are released first"
        );
    }
}
