//! The place of a command's own reader: while it exists the log keeps what the reader has not read, and the command
//! waits when the log is full.
//!
//! The caller of Run has it from the start. A command that was started without a stream waits a moment for its first
//! reader. A reader that went away without a word keeps its place for [`READER_HOLD`], because sandboxd may be restarting;
//! one that said so keeps it for [`READER_ABSENCE`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::command::{Command, State};
use crate::limits::{READER_ABSENCE, READER_HOLD};

/// The command's own reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnReader {
    Absent,
    /// Nobody has read yet. Expires by itself.
    Expected {
        until: Instant,
    },
    /// The number tells one reading, or one wait, from the next.
    Reading(u64),
    /// Its place is kept for a while.
    Awaited(u64),
}

/// A reader that is reading. Dropping it means that the reader went away without a word.
#[derive(Debug)]
pub(crate) struct Place {
    command: Arc<Command>,
    turn: u64,
}

impl Place {
    /// The place of the caller that started the command, before the first record.
    pub(crate) fn first(command: &Arc<Command>, reader: u64) -> Self {
        Self::at(command, &mut command.lock(), 1, reader)
    }

    /// The place of a reader that is expected or went away, for one that has everything before record `next`. The
    /// same reader may also take its own place over before its last connection is known to have ended.
    pub(crate) fn take_over(command: &Arc<Command>, next: u64, reader: u64) -> Option<Self> {
        let mut state = command.lock();
        let is_free = match state.own_reader {
            OwnReader::Absent => false,
            // An older sandboxd would not say when its reader leaves.
            OwnReader::Expected { until } => next == 1 && reader != 0 && Instant::now() < until,
            OwnReader::Awaited(_) => true,
            OwnReader::Reading(_) => reader != 0 && reader == state.reader,
        };
        // One that claims to have what is not written yet is not the reader that went away.
        let takes = is_free && next <= state.log.next_seq();
        takes.then(|| Self::at(command, &mut state, next, reader))
    }

    fn at(command: &Arc<Command>, state: &mut State, next: u64, reader: u64) -> Self {
        let turn = state.next_turn();
        state.own_reader = OwnReader::Reading(turn);
        state.reader = reader;
        state.log.set_anchor(next);
        Self { command: Arc::clone(command), turn }
    }

    /// The reader has everything before record `next`.
    pub(crate) fn advance(&self, next: u64) {
        let mut state = self.command.lock();
        if state.own_reader == OwnReader::Reading(self.turn) {
            state.log.set_anchor(next);
            drop(state);
            self.command.made_room.notify_waiters();
        }
    }

    /// The reader needs nothing more.
    pub(crate) fn leave(self) {
        self.command.stop_waiting_for(OwnReader::Reading(self.turn));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.command.lock();
        if state.own_reader == OwnReader::Reading(self.turn) {
            self.command.hold(&mut state, READER_HOLD);
        }
    }
}

impl Command {
    /// Lets the command wait for its first reader.
    pub(crate) fn expect_reader(&self) {
        let mut state = self.lock();
        state.own_reader = OwnReader::Expected { until: Instant::now() + READER_ABSENCE };
        state.log.set_anchor(1);
    }

    /// Notes that a reader left, or with `comes_back` that it is only slow. Means nothing for a reader without a place.
    pub(crate) fn reader_left(self: &Arc<Self>, reader: u64, comes_back: bool) {
        let mut state = self.lock();
        let has_place = matches!(state.own_reader, OwnReader::Reading(_) | OwnReader::Awaited(_));
        if has_place && reader != 0 && reader == state.reader {
            self.hold(&mut state, if comes_back { READER_HOLD } else { READER_ABSENCE });
        }
    }

    /// Keeps the place of a reader that is not reading.
    fn hold(self: &Arc<Self>, state: &mut State, time: Duration) {
        let hold = OwnReader::Awaited(state.next_turn());
        state.own_reader = hold;
        // Another reader may take the place.
        self.changed.notify_waiters();
        let command = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            command.stop_waiting_for(hold);
        });
    }

    /// Gives up on a first reader that has not come in time, or at once where memory for logs is short. Until when it
    /// is expected otherwise.
    pub(crate) fn first_reader_until(&self, state: &mut State, is_short: bool) -> Option<Instant> {
        let OwnReader::Expected { until } = state.own_reader else {
            return None;
        };
        if !is_short && Instant::now() < until {
            return Some(until);
        }
        self.release(state);
        None
    }

    fn stop_waiting_for(&self, expected: OwnReader) {
        let mut state = self.lock();
        if state.own_reader == expected {
            self.release(&mut state);
            drop(state);
            self.made_room.notify_waiters();
        }
    }

    fn release(&self, state: &mut State) {
        state.own_reader = OwnReader::Absent;
        let before = state.log.cost();
        state.log.release_anchor();
        self.budget.moved(before, state.log.cost());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bytes::Bytes;
    use rustix::process::Pid;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::command::Spec;
    use crate::limits::LOG_BYTES;
    use crate::output::Stream;
    use crate::stdin::Stdin;

    fn command() -> Arc<Command> {
        let spec = Spec {
            id: "cmd".into(),
            number: 1,
            digest: Bytes::new(),
            argv: Vec::new(),
            cwd: PathBuf::new(),
            timeout: None,
            detached: false,
        };
        Command::new(spec, Pid::INIT, None, Stdin::new(None), Arc::default()).0
    }

    /// Writes as much as a reader may leave unread.
    fn fill(command: &Command) {
        command.record(Stream::Stdout, Bytes::from(vec![b'x'; LOG_BYTES / 2]));
    }

    async fn waits(command: &Command) -> bool {
        timeout(Duration::from_millis(1), command.room()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_its_first_reader_and_not_for_long() {
        let command = command();
        command.expect_reader();
        assert!(!waits(&command).await);
        fill(&command);
        assert!(waits(&command).await);
        timeout(READER_ABSENCE, command.room()).await.expect("nobody came, and it still waits");
        assert!(Place::take_over(&command, 1, 7).is_none(), "a late reader has no place");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reader_holds_the_command_back_until_it_has_left_for_a_while() {
        let command = command();
        command.expect_reader();
        fill(&command);
        assert!(Place::take_over(&command, 2, 7).is_none(), "it does not begin at the beginning");
        let place = Place::take_over(&command, 1, 7).unwrap();
        advance(READER_ABSENCE * 10).await;
        assert!(waits(&command).await);
        assert!(Place::take_over(&command, 1, 8).is_none(), "there is one already");
        drop(place);
        command.reader_left(7, false);
        assert!(waits(&command).await);
        timeout(READER_ABSENCE, command.room()).await.expect("it waits for one that has left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_takes_its_own_place_over_and_the_old_connection_ends_without_effect() {
        let command = command();
        let old = Place::first(&command, 7);
        fill(&command);
        let new = Place::take_over(&command, 1, 7).unwrap();
        old.advance(2);
        drop(old);
        assert!(waits(&command).await);
        new.advance(2);
        assert!(!waits(&command).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_keeps_its_place_for_as_long_as_it_says_so() {
        let command = command();
        drop(Place::first(&command, 7));
        fill(&command);
        for _ in 0..5 {
            command.reader_left(7, true);
            advance(READER_HOLD / 2).await;
        }
        command.reader_left(8, false);
        assert!(waits(&command).await);
        assert!(Place::take_over(&command, 1, 7).is_some());
    }
}
