//! The event stream of one reader of one command.
//!
//! First what is kept after the reader's last record, then what comes, last the end. A reader learns of
//! everything up to the end; what children write after it is in the log for those who ask later, and a
//! command that keeps writing cannot keep a reader for ever.

use std::sync::Arc;

use agent_protocol::v1::{self, command_event::Event};
use futures::Stream;
use tonic::Status;

use crate::command::{Command, Read};
use crate::limits::MESSAGE_BYTES;
use crate::output::Chunk;
use crate::place::Place;

/// Where a reader is.
#[derive(Debug)]
pub(crate) struct Reader {
    command: Arc<Command>,
    place: Option<Place>,
    reader: u64,
    /// Whether it takes the place of the command's own reader once that is free.
    claims: bool,
    /// Sequence number of the last record the reader has.
    after: u64,
    follow: bool,
    announce: bool,
    /// The first record the reader does not get any more, once the command has ended.
    stop_at: Option<u64>,
    done: bool,
}

impl Reader {
    /// The caller that asked for the command to run: hears of the start first.
    pub(crate) fn of_run(command: Arc<Command>, place: Option<Place>) -> Self {
        Self { announce: true, claims: false, ..Self::of_attach(command, 0, true, 0) }.with_place(place)
    }

    /// One that joins later. While nobody else has the command's own place, it takes that.
    pub(crate) fn of_attach(command: Arc<Command>, after: u64, follow: bool, reader: u64) -> Self {
        // One that claims to have what is not written yet gets no place.
        let claims = follow && after.saturating_add(1) <= command.next_seq();
        Self {
            command,
            place: None,
            reader,
            claims,
            after,
            follow,
            announce: false,
            stop_at: None,
            done: false,
        }
    }

    fn with_place(self, place: Option<Place>) -> Self {
        Self { place, ..self }
    }

    /// The events, in order.
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
            Some(chunk) if !past_end => Some(self.pass_on(chunk)),
            _ => self.finish(read.ended),
        }
    }

    async fn read(&mut self) -> Read {
        loop {
            let next = self.after.saturating_add(1);
            match &self.place {
                // Asking for more means that the transport took what it had.
                Some(place) => place.advance(next),
                None if self.claims => self.place = Place::take_over(&self.command, next, self.reader),
                None => {}
            }
            let waits_for_place = self.claims && self.place.is_none();
            let read = self.command.read(self.after, MESSAGE_BYTES, self.follow, waits_for_place).await;
            if !self.follow || read.chunk.is_some() || read.ended.is_some() {
                return read;
            }
        }
    }

    fn pass_on(&mut self, chunk: Chunk) -> Event {
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
        if let Some(place) = self.place.take() {
            place.leave();
        }
        ended.map(Event::Ended)
    }
}

/// The events of a command whose output is gone.
pub(crate) fn replay(status: v1::CommandStatus) -> impl Stream<Item = Result<v1::CommandEvent, Status>> {
    let dropped_bytes = status.stdout_bytes + status.stderr_bytes;
    let gap = (dropped_bytes > 0).then_some(Event::Gap(v1::Gap { dropped_bytes, next_seq: 1 }));
    let events = [status.started.map(Event::Started), gap, status.ended.map(Event::Ended)];
    futures::stream::iter(
        events.into_iter().flatten().map(|event| Ok(v1::CommandEvent { event: Some(event) })),
    )
}
