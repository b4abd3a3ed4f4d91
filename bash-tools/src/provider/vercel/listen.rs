//! Events of a command, across broken connections.
//!
//! The end of a stream says nothing about the command. Only its exit code does. Vercel keeps the whole output and
//! sends it again from the first byte, so output that was already returned is counted and skipped. The time limit
//! uses the local clock and starts when the command is known to run.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::alive::Alive;
use super::call::{ACTION_TIMEOUT, Call};
use super::fault::Fault;
use super::lines::{LineResult, Lines};
use super::wire::{Command, Line, Started};
use crate::provider::{End, EndReason, Event, Result as Answer};

/// Maximum number of attempts without new output.
const MAX_TRIES: u32 = 5;

/// Pause before the second attempt. It grows by the same amount before each further one.
const PAUSE: Duration = Duration::from_millis(500);

/// Deadline for the rest of the output after a command was ended by its time limit.
const END_GRACE: Duration = Duration::from_secs(3);

/// Exit code of a process that SIGKILL ended, as a shell reports it.
const KILLED: i32 = 137;

const TIMED_OUT: End = End { exit_code: 124, reason: EndReason::Timeout };
const LOST: End = End { exit_code: KILLED, reason: EndReason::Lost };

/// Number of bytes of both streams.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    stdout: u64,
    stderr: u64,
}

/// Events of a command.
pub(super) struct Listener {
    alive: Alive,
    lines: Option<Lines>,
    is_replay: bool,
    passed: Counts,
    /// Bytes of the current stream that were already returned.
    to_skip: Counts,
    /// How the command ended, if that was known before the current stream began.
    ended: Option<Command>,
    ends_at: Instant,
    limit: Duration,
    has_timed_out: bool,
    tries: u32,
    is_begun: bool,
    is_done: bool,
}

impl Listener {
    /// Creates a listener for a command whose first line was read.
    pub(super) fn new(alive: Alive, lines: Lines, limit: Duration) -> Self {
        Self {
            alive,
            lines: Some(lines),
            is_replay: false,
            passed: Counts::default(),
            to_skip: Counts::default(),
            ended: None,
            ends_at: Instant::now() + limit,
            limit,
            has_timed_out: false,
            tries: 0,
            is_begun: false,
            is_done: false,
        }
    }

    pub(super) fn events(self) -> BoxStream<'static, Answer<Event>> {
        futures::stream::unfold(self, |mut listener| async move {
            let event = listener.next().await?;
            Some((event, listener))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Answer<Event>> {
        if self.is_done {
            return None;
        }
        if !self.is_begun {
            self.is_begun = true;
            return Some(Ok(Event::Started));
        }
        let event = self.next_event().await;
        self.is_done = matches!(event, Err(_) | Ok(Event::Ended(_)));
        // After an error the command may still run. Dropping this ends it.
        self.alive.is_over |= matches!(event, Ok(Event::Ended(_)));
        Some(event.map_err(Into::into))
    }

    async fn next_event(&mut self) -> Result<Event, Fault> {
        loop {
            let event = tokio::select! {
                biased;
                () = sleep_until(self.ends_at) => None,
                event = self.read_event() => Some(event?),
            };
            match event {
                Some(Some(event)) => return Ok(event),
                Some(None) => {}
                None if self.has_timed_out => return Ok(Event::Ended(TIMED_OUT)),
                None => {
                    self.has_timed_out = true;
                    self.alive.end();
                    self.ends_at = Instant::now() + END_GRACE;
                }
            }
        }
    }

    /// Waits for the next line. It can be cancelled at every await.
    async fn read_event(&mut self) -> Result<Option<Event>, Fault> {
        let Some(lines) = &mut self.lines else { return self.listen_again().await };
        match lines.next().await {
            LineResult::Line(line) => Ok(self.take(line)),
            LineResult::End if self.is_replay => self.at_end_of_replay().await,
            LineResult::End | LineResult::Broken => {
                self.lines = None;
                Ok(None)
            }
        }
    }

    fn take(&mut self, line: Line) -> Option<Event> {
        if let Some(command) = line.command {
            return command.exit_code.map(|exit_code| self.end(exit_code, command.duration_ms));
        }
        match (line.stream?.as_str(), line.data) {
            ("stdout", Some(Value::String(text))) => {
                let bytes = fresh(text, &mut self.to_skip.stdout, &mut self.passed.stdout)?;
                self.tries = 0;
                Some(Event::Stdout(bytes))
            }
            ("stderr", Some(Value::String(text))) => {
                let bytes = fresh(text, &mut self.to_skip.stderr, &mut self.passed.stderr)?;
                self.tries = 0;
                Some(Event::Stderr(bytes))
            }
            ("error", data) => {
                tracing::debug!(?data, "a command's stream reports an error");
                self.lines = None;
                None
            }
            _ => None,
        }
    }

    /// Requests the output from its beginning.
    async fn listen_again(&mut self) -> Result<Option<Event>, Fault> {
        if self.tries >= MAX_TRIES {
            return Err(Fault::Cut { tries: self.tries });
        }
        sleep(PAUSE * self.tries).await;
        self.tries += 1;
        match self.alive.api.send(&Call::get(format!("{}/logs", self.alive.path()))).await {
            Ok(response) => {
                self.lines = Some(Lines::of(response));
                self.is_replay = true;
                self.to_skip = self.passed;
                Ok(None)
            }
            Err(fault) => lost_or(fault),
        }
    }

    /// The output is complete if the command had ended before this replay began. Otherwise this waits for its end,
    /// and the output is requested once more.
    async fn at_end_of_replay(&mut self) -> Result<Option<Event>, Fault> {
        self.lines = None;
        if self.to_skip.stdout > 0 || self.to_skip.stderr > 0 {
            // The replay ended before the position of the previous one.
            return Ok(None);
        }
        if let Some(Command { exit_code: Some(exit_code), duration_ms, .. }) = self.ended {
            return Ok(Some(self.end(exit_code, duration_ms)));
        }
        let wait = Call::get(self.alive.path()).query("wait", "true").within(ACTION_TIMEOUT);
        match self.alive.api.json::<Started>(&wait).await {
            Ok(Started { command }) => {
                self.ended = Some(command);
                Ok(None)
            }
            Err(fault) => lost_or(fault),
        }
    }

    fn end(&self, exit_code: i32, duration_ms: Option<f64>) -> Event {
        let took = duration_ms.unwrap_or_default();
        let was_ended_there = exit_code == KILLED && took >= self.limit.as_secs_f64() * 1000.0;
        if self.has_timed_out || was_ended_there {
            return Event::Ended(TIMED_OUT);
        }
        Event::Ended(End { exit_code, reason: EndReason::Exited })
    }
}

/// Returns the part of a text that is new.
fn fresh(text: String, to_skip: &mut u64, passed: &mut u64) -> Option<Bytes> {
    let mut bytes = Bytes::from(text);
    let skip = (*to_skip).min(bytes.len() as u64);
    *to_skip -= skip;
    // At most its length, which fits into memory.
    let fresh = bytes.split_off(skip as usize);
    *passed += fresh.len() as u64;
    (!fresh.is_empty()).then_some(fresh)
}

/// A command is lost with its session. Temporary errors are retried.
fn lost_or(fault: Fault) -> Result<Option<Event>, Fault> {
    if fault.is_not_found() || fault.is_of_stopped_session() {
        return Ok(Some(Event::Ended(LOST)));
    }
    if fault.is_uncertain() { Ok(None) } else { Err(fault) }
}
