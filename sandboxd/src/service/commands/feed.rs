//! The events of a command that its stream has not passed on yet, given back while the client reads nothing.
//!
//! A connection to an agent takes a window of events for each stream before it makes the agent wait. A client that does
//! not read would hold that for minutes, and many of them would take all memory. So a stream that is not asked for its
//! next event drops what it has, and reads it from the agent's log again when it is asked. Nothing is lost by that: the
//! log keeps what a reader with a place in it has not read, and any other reader hears of a gap.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::StreamExt;
use sandbox_api::CommandId;
use tokio::time::{MissedTickBehavior, interval};

use super::Commands;
use crate::agent::{AgentHandle, Error, EventStream, ReaderId};
use crate::model::command::Record;
use crate::model::{Event, limits};

/// What there is to pass on.
#[derive(Debug)]
pub(super) enum Next {
    /// Output comes in pieces of about [`limits::PIECE_BYTES`].
    Event(Event),
    /// The connection failed.
    Broken(Error),
    /// The connection has ended.
    Ended,
    /// There is none: it broke, or there never was one.
    Absent,
    /// There is none: it was given up because nobody read.
    GivenUp,
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
    /// What is left of the last output.
    rest: std::vec::IntoIter<Record>,
    /// Whether the agent's log has the events too.
    is_repeatable: bool,
    /// Since when nobody asks for the next event; `None` while somebody does.
    idle_since: Option<Instant>,
    /// When the agent last heard that the reader comes back.
    told_at: Instant,
}

enum Source {
    Open(EventStream),
    Absent,
    GivenUp,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Absent => "Absent",
            Self::GivenUp => "GivenUp",
        })
    }
}

/// While it lives, somebody waits for the next event.
struct Asking<'f>(&'f Feed);

impl Drop for Asking<'_> {
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
            told_at: Instant::now(),
        };
        Arc::new(Self { agent, command, reader, state: Mutex::new(state) })
    }

    /// Passes on the events of a connection.
    pub(super) fn open(&self, events: EventStream) {
        self.lock().source = Source::Open(events);
    }

    /// Gives up a connection that broke.
    pub(super) fn close(&self) {
        self.lock().source = Source::Absent;
    }

    /// From now on the events can be read from the agent's log.
    pub(super) fn set_repeatable(&self) {
        self.lock().is_repeatable = true;
    }

    /// The next event. Safe to cancel.
    pub(super) async fn next(&self) -> Next {
        let _asking = Asking(self);
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
            Source::GivenUp => return Poll::Ready(Next::GivenUp),
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

    /// Since when it holds events that nobody asks for.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        state.idle_since.filter(|_| state.is_repeatable && matches!(state.source, Source::Open(_)))
    }

    /// Drops what it holds, if still nobody asks for it.
    fn give_up(&self) {
        let mut state = self.lock();
        if state.idle_since.is_none() || !matches!(state.source, Source::Open(_)) {
            return;
        }
        let source = std::mem::replace(&mut state.source, Source::GivenUp);
        let rest = std::mem::take(&mut state.rest);
        state.told_at = Instant::now();
        drop(state);
        drop((source, rest));
    }

    /// Whether the agent must hear again that this reader comes back.
    fn must_tell(&self) -> bool {
        let mut state = self.lock();
        let must = matches!(state.source, Source::GivenUp) && state.told_at.elapsed() >= limits::SLOW_READER;
        if must {
            state.told_at = Instant::now();
        }
        must
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records up to the length of a piece, at least one where there is one.
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

/// The feeds of all streams.
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

    /// Gives up those that nobody has asked for a while, and of the others as many as it takes to stay within
    /// [`limits::MAX_UNREAD_BYTES`]. Those whose readers the agent must hear of.
    fn sweep(&self) -> Vec<Arc<Feed>> {
        let all = self.all();
        let mut idle: Vec<_> = all.iter().filter_map(|feed| Some((feed.idle_since()?, feed))).collect();
        idle.sort_by_key(|(since, _)| *since);
        let excess = idle.len().saturating_sub(limits::MAX_UNREAD_BYTES / limits::UNREAD_STREAM_BYTES);
        for (at, (since, feed)) in idle.into_iter().enumerate() {
            if at < excess || since.elapsed() >= limits::UNREAD_EVENTS {
                feed.give_up();
            }
        }
        all.into_iter().filter(|feed| feed.must_tell()).collect()
    }
}

impl Commands {
    /// Gives back what streams hold that nobody reads.
    pub(in crate::service) async fn sweep_feeds(&self) {
        let mut ticks = interval(limits::FEED_SWEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for feed in self.feeds.sweep() {
                // One that does not hear it keeps the place for as long as for a connection that broke.
                self.tasks.spawn(async move { feed.agent.reader_is_slow(&feed.command, feed.reader).await });
            }
        }
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
        Record { seq, stream: Stream::Stdout, data: Bytes::from(vec![b'x'; bytes]) }
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
    async fn what_nobody_asks_for_is_given_up_if_it_can_be_read_again() {
        let feed = feed(vec![record(1, limits::PIECE_BYTES), record(2, limits::PIECE_BYTES)]);
        assert_eq!(next_seqs(&feed).await, [1]);
        assert!(feed.idle_since().is_none(), "only this connection has it");
        feed.set_repeatable();
        assert!(feed.idle_since().is_some());
        feed.give_up();
        assert!(matches!(feed.next().await, Next::GivenUp));
    }

    #[tokio::test]
    async fn what_somebody_waits_for_is_kept() {
        let feed = feed(vec![record(1, 10)]);
        feed.set_repeatable();
        assert_eq!(next_seqs(&feed).await, [1]);
        let mut next = Box::pin(feed.next());
        assert!(futures::poll!(next.as_mut()).is_pending());
        feed.give_up();
        assert!(futures::poll!(next.as_mut()).is_pending(), "its silence is the command's");
    }

    #[tokio::test]
    async fn many_that_are_not_read_stay_within_the_bound_at_once() {
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
        assert!(kept[..5].iter().all(|feed| feed.idle_since().is_none()), "the oldest go first");
    }
}
