//! The position of a command's primary reader in its log. While it exists, the log keeps everything that the reader
//! has not read, and the command waits when the log is full.
//!
//! The caller of Run gets the position at the start. A command that was started without a stream waits a short time
//! for its first reader. If a reader disconnects, its position stays reserved for [`READER_HOLD`], because sandboxd
//! may be restarting. If a reader reports that it leaves, its position stays reserved for [`READER_ABSENCE`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::command::{Command, State};
use crate::limits::{READER_ABSENCE, READER_HOLD};
use crate::primary_reader::PrimaryReader;

/// Position of a connected reader. Dropping it means that the reader disconnected.
#[derive(Debug)]
pub(crate) struct LogPosition {
    command: Arc<Command>,
    number: u64,
}

impl LogPosition {
    /// Creates the position of the caller that started the command, before the first record.
    pub(crate) fn first(command: &Arc<Command>, reader: u64) -> Self {
        Self::at(command, &mut command.lock(), 1, reader)
    }

    /// Takes over the position of a reader that is expected or has left. The new reader must have everything before
    /// record `next`. The same reader may also take over its own position before its last connection is known to have
    /// ended.
    pub(crate) fn take_over(command: &Arc<Command>, next: u64, reader: u64) -> Option<Self> {
        let mut state = command.lock();
        let is_free = match state.primary_reader {
            PrimaryReader::Absent => false,
            // A reader without a number is an older sandboxd, which would not report when it leaves.
            PrimaryReader::Expected { until } => next == 1 && reader != 0 && Instant::now() < until,
            PrimaryReader::Reserved(_) => true,
            PrimaryReader::Reading(_) => reader != 0 && reader == state.reader,
        };
        // A reader that claims to have records that are not written yet is not the reader that left.
        let takes = is_free && next <= state.log.next_seq();
        takes.then(|| Self::at(command, &mut state, next, reader))
    }

    fn at(command: &Arc<Command>, state: &mut State, next: u64, reader: u64) -> Self {
        let number = state.next_number();
        state.primary_reader = PrimaryReader::Reading(number);
        state.reader = reader;
        state.log.set_anchor(next);
        Self { command: Arc::clone(command), number }
    }

    /// Records that the reader has everything before record `next`.
    pub(crate) fn advance(&self, next: u64) {
        let mut state = self.command.lock();
        if state.primary_reader == PrimaryReader::Reading(self.number) {
            state.log.set_anchor(next);
            drop(state);
            self.command.made_room.notify_waiters();
        }
    }

    /// Releases the position. The reader needs nothing more.
    pub(crate) fn leave(self) {
        self.command.stop_waiting_for(PrimaryReader::Reading(self.number));
    }
}

impl Drop for LogPosition {
    fn drop(&mut self) {
        let mut state = self.command.lock();
        if state.primary_reader == PrimaryReader::Reading(self.number) {
            self.command.reserve(&mut state, READER_HOLD);
        }
    }
}

impl Command {
    /// Lets the command wait for its first reader.
    pub(crate) fn expect_reader(&self) {
        let mut state = self.lock();
        state.primary_reader = PrimaryReader::Expected { until: Instant::now() + READER_ABSENCE };
        state.log.set_anchor(1);
    }

    /// Records that a reader left or, with `comes_back`, that it is only slow. Does nothing for a reader without the
    /// position.
    pub(crate) fn reader_left(self: &Arc<Self>, reader: u64, comes_back: bool) {
        let mut state = self.lock();
        if state.primary_reader.has_position() && reader != 0 && reader == state.reader {
            self.reserve(&mut state, if comes_back { READER_HOLD } else { READER_ABSENCE });
        }
    }

    /// Reserves the position of a reader that is not connected.
    fn reserve(self: &Arc<Self>, state: &mut State, time: Duration) {
        let reserve = PrimaryReader::Reserved(state.next_number());
        state.primary_reader = reserve;
        // Another reader may take the position.
        self.changed.notify_waiters();
        let command = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            command.stop_waiting_for(reserve);
        });
    }

    fn stop_waiting_for(&self, expected: PrimaryReader) {
        let mut state = self.lock();
        if state.primary_reader == expected {
            self.release_position(&mut state);
            drop(state);
            self.made_room.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::limits::LOG_BYTES;
    use crate::output::Stream;

    fn command() -> Arc<Command> {
        crate::command::tests::command(crate::command::tests::spec(), &Arc::default())
    }

    /// Writes as much as a reader may leave unread.
    fn fill(command: &Command) {
        command.record(Stream::Stdout, Bytes::from(vec![b'x'; LOG_BYTES / 2]));
    }

    async fn is_waiting(command: &Command) -> bool {
        timeout(Duration::from_millis(1), command.wait_for_room()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_a_limited_time_for_its_first_reader() {
        let command = command();
        command.expect_reader();
        assert!(!is_waiting(&command).await);
        fill(&command);
        assert!(is_waiting(&command).await);
        timeout(READER_ABSENCE, command.wait_for_room())
            .await
            .expect("no reader came, and the command still waits");
        assert!(LogPosition::take_over(&command, 1, 7).is_none(), "a late reader gets no position");
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_its_first_reader_until_the_reservation_expires() {
        let command = command();
        command.expect_reader();
        fill(&command);
        assert!(LogPosition::take_over(&command, 2, 7).is_none(), "the reader does not start at record 1");
        let position = LogPosition::take_over(&command, 1, 7).unwrap();
        advance(READER_ABSENCE * 10).await;
        assert!(is_waiting(&command).await);
        assert!(LogPosition::take_over(&command, 1, 8).is_none(), "there is a reader already");
        drop(position);
        command.reader_left(7, false);
        assert!(is_waiting(&command).await);
        timeout(READER_ABSENCE, command.wait_for_room())
            .await
            .expect("the command waits for a reader that has left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_takes_over_its_own_position_and_its_old_connection_has_no_effect() {
        let command = command();
        let old = LogPosition::first(&command, 7);
        fill(&command);
        let new = LogPosition::take_over(&command, 1, 7).unwrap();
        old.advance(2);
        drop(old);
        assert!(is_waiting(&command).await);
        new.advance(2);
        assert!(!is_waiting(&command).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_keeps_its_position_while_it_reports_itself() {
        let command = command();
        drop(LogPosition::first(&command, 7));
        fill(&command);
        for _ in 0..5 {
            command.reader_left(7, true);
            advance(READER_HOLD / 2).await;
        }
        command.reader_left(8, false);
        assert!(is_waiting(&command).await);
        assert!(LogPosition::take_over(&command, 1, 7).is_some());
    }
}
