//! The event stream of one reader of one command.
//!
//! Sends the kept records after the reader's last one, then new records, and the end last. A reader gets all records up
//! to the end. Output that children write after the end stays in the log for later readers. So children that keep
//! writing cannot keep a reader connected forever.

use std::sync::Arc;

use agent_protocol::v1::{self, command_event::Event};
use futures::Stream;
use tonic::Status;

use crate::command::{Command, Read};
use crate::limits::MESSAGE_BYTES;
use crate::log_position::LogPosition;
use crate::output::Chunk;

/// State of one reader.
#[derive(Debug)]
pub(crate) struct Reader {
    command: Arc<Command>,
    position: Option<LogPosition>,
    reader: u64,
    /// Whether the reader takes the primary reader's position once that is free.
    wants_position: bool,
    /// Sequence number of the last record that the reader has.
    after: u64,
    follow: bool,
    announce: bool,
    /// Sequence number of the first record after the command's end. The reader does not get it.
    stop_at: Option<u64>,
    done: bool,
}

impl Reader {
    /// Creates the reader of the caller that started the command. Its first event is the start.
    pub(crate) fn of_run(command: Arc<Command>, position: Option<LogPosition>) -> Self {
        Self { announce: true, wants_position: false, ..Self::of_attach(command, 0, true, 0) }
            .with_position(position)
    }

    /// Creates a reader that attaches later. It takes the primary reader's position if that is free.
    pub(crate) fn of_attach(command: Arc<Command>, after: u64, follow: bool, reader: u64) -> Self {
        // A reader that claims to have records that are not written yet gets no position.
        let wants_position = follow && after.saturating_add(1) <= command.next_seq();
        Self {
            command,
            position: None,
            reader,
            wants_position,
            after,
            follow,
            announce: false,
            stop_at: None,
            done: false,
        }
    }

    fn with_position(self, position: Option<LogPosition>) -> Self {
        Self { position, ..self }
    }

    /// Returns the events in order.
    pub(crate) fn events(self) -> impl Stream<Item = Result<v1::CommandEvent, Status>> {
        futures::stream::unfold(self, |mut reader| async move {
            let event = reader.next().await?;
            Some((Ok(v1::CommandEvent { event: Some(event) }), reader))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.announce) {
            return Some(Event::Started(self.command.started_event()));
        }
        if self.done {
            return None;
        }
        let read = self.read().await;
        if read.ended.is_some() && self.stop_at.is_none() {
            self.stop_at = Some(read.next_seq);
        }
        let past_end = self.stop_at.is_some_and(|stop| self.after.saturating_add(1) >= stop);
        match read.chunk {
            Some(chunk) if !past_end => Some(self.event_for(chunk)),
            _ => self.finish(read.ended),
        }
    }

    async fn read(&mut self) -> Read {
        loop {
            let next = self.after.saturating_add(1);
            match &self.position {
                // The transport has taken the previous records, because it polls for more.
                Some(position) => position.advance(next),
                None if self.wants_position => {
                    self.position = LogPosition::take_over(&self.command, next, self.reader)
                }
                None => {}
            }
            let waits_for_position = self.wants_position && self.position.is_none();
            let read = self.command.read(self.after, MESSAGE_BYTES, self.follow, waits_for_position).await;
            if !self.follow || read.chunk.is_some() || read.ended.is_some() {
                return read;
            }
        }
    }

    fn event_for(&mut self, chunk: Chunk) -> Event {
        match chunk {
            Chunk::Gap(gap) => {
                self.after = gap.next_seq - 1;
                Event::Gap(gap)
            }
            Chunk::Records(records) => {
                self.after = records.last().map_or(self.after, |record| record.seq);
                Event::Output(v1::Output { records })
            }
        }
    }

    fn finish(&mut self, ended: Option<v1::Ended>) -> Option<Event> {
        self.done = true;
        if let Some(position) = self.position.take() {
            position.leave();
        }
        ended.map(Event::Ended)
    }
}

/// Returns the events of a command whose output was discarded.
pub(crate) fn without_output(
    status: v1::CommandStatus,
) -> impl Stream<Item = Result<v1::CommandEvent, Status>> {
    let dropped_bytes = status.stdout_bytes + status.stderr_bytes;
    let gap = (dropped_bytes > 0).then_some(Event::Gap(v1::Gap { dropped_bytes, next_seq: 1 }));
    let events = [status.started.map(Event::Started), gap, status.ended.map(Event::Ended)];
    futures::stream::iter(
        events.into_iter().flatten().map(|event| Ok(v1::CommandEvent { event: Some(event) })),
    )
}
