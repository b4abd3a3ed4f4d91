//! One command: what it was started with, its log, and how it ended.
//!
//! Owns the state that readers and the supervisor share. The surprise: a command's own reader (the caller
//! of Run) is part of that state, because its position decides what the log must keep and when the command
//! has to wait; see [`Place`].

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent_protocol::v1;
use bytes::Bytes;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc};

use crate::ladder;
use crate::limits::{
    ALL_LOGS_BYTES, LOG_BYTES, READER_HOLD, REPEATED_LOG_BYTES, SMALL_LOG_BYTES, STATUS_ARG_BYTES,
    STATUS_ARGS,
};
use crate::mark::Mark;
use crate::members::Owner;
use crate::output::{Chunk, Log, Stream};
use crate::stdin::Stdin;

/// What all logs hold together, and the ended commands that can be forgotten where that is too much.
#[derive(Debug, Default)]
pub(crate) struct LogBudget {
    bytes: AtomicUsize,
    /// Oldest first.
    ended: Mutex<VecDeque<Weak<Command>>>,
}

impl LogBudget {
    fn is_short(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > ALL_LOGS_BYTES
    }

    fn moved(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Makes room by forgetting what ended commands wrote, the oldest first; whether memory is short still.
    fn relieve(&self) -> bool {
        while self.is_short() {
            let oldest = self.lock().pop_front();
            match oldest {
                Some(command) => command.upgrade().into_iter().for_each(|command| command.forget_output()),
                None => return true,
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Command>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a command was started with.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) id: String,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) timeout: Option<Duration>,
    pub(crate) detached: bool,
}

/// The command's own reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnReader {
    Absent,
    Reading,
    /// Its connection broke; the place is kept for a while. The number tells one hold from the next.
    Awaited(u64),
}

#[derive(Debug)]
struct State {
    log: Log,
    own_reader: OwnReader,
    holds: u64,
    main_collected: bool,
    ended: Option<v1::Ended>,
}

impl State {
    /// What the log may keep while memory is short.
    fn short_limit(&self) -> usize {
        if self.own_reader == OwnReader::Absent { SMALL_LOG_BYTES } else { REPEATED_LOG_BYTES }
    }
}

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) spec: Spec,
    pub(crate) started: Instant,
    pub(crate) stdin: Stdin,
    started_at_ms: i64,
    main: Pid,
    mark: Option<Mark>,
    state: Mutex<State>,
    /// Woken by every record and by the end.
    changed: Notify,
    /// Woken when the log may have room again.
    made_room: Notify,
    end_requests: mpsc::UnboundedSender<Signal>,
    budget: Arc<LogBudget>,
}

impl Command {
    /// A command whose main process is `main` and carries `mark`; the receiver is for its supervisor.
    pub(crate) fn new(
        spec: Spec,
        main: Pid,
        mark: Option<Mark>,
        stdin: Stdin,
        budget: Arc<LogBudget>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Signal>) {
        let (end_requests, requested) = mpsc::unbounded_channel();
        let command = Self {
            spec,
            started: Instant::now(),
            stdin,
            started_at_ms: epoch_ms(),
            main,
            mark,
            state: Mutex::new(State {
                log: Log::new(LOG_BYTES),
                own_reader: OwnReader::Absent,
                holds: 0,
                main_collected: false,
                ended: None,
            }),
            changed: Notify::new(),
            made_room: Notify::new(),
            end_requests,
            budget,
        };
        (Arc::new(command), requested)
    }

    /// Adds a record to the log.
    pub(crate) fn record(&self, stream: Stream, data: Bytes) {
        let short = self.budget.relieve();
        let mut state = self.lock();
        let before = state.log.cost();
        state.log.push(stream, data);
        if short {
            let limit = state.short_limit();
            state.log.trim_to(limit);
        }
        self.budget.moved(before, state.log.cost());
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until the log may grow.
    pub(crate) async fn room(&self) {
        loop {
            let made_room = self.made_room.notified();
            let limit = if self.budget.is_short() { REPEATED_LOG_BYTES } else { LOG_BYTES };
            if self.lock().log.has_room(limit) {
                return;
            }
            made_room.await;
        }
    }

    /// What follows record `after`, with the end where it is known; waits for one of them if `wait`.
    pub(crate) async fn read(&self, after: u64, max_bytes: usize, wait: bool) -> Read {
        loop {
            let changed = self.changed.notified();
            let read = self.read_now(after, max_bytes);
            if !wait || read.chunk.is_some() || read.ended.is_some() {
                return read;
            }
            changed.await;
        }
    }

    fn read_now(&self, after: u64, max_bytes: usize) -> Read {
        let state = self.lock();
        Read { chunk: state.log.read(after, max_bytes), next_seq: state.log.next_seq(), ended: state.ended }
    }

    /// The end, when it has come.
    pub(crate) async fn ended(&self) -> v1::Ended {
        loop {
            let changed = self.changed.notified();
            if let Some(ended) = self.lock().ended {
                return ended;
            }
            changed.await;
        }
    }

    /// The end, if it has come.
    pub(crate) fn end_now(&self) -> Option<v1::Ended> {
        self.lock().ended
    }

    /// Records the end; counts and duration are filled in here.
    pub(crate) fn finish(&self, ended: v1::Ended) {
        let mut state = self.lock();
        state.ended = Some(v1::Ended {
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            stdout_bytes: state.log.stdout_bytes(),
            stderr_bytes: state.log.stderr_bytes(),
            dropped_bytes: state.log.dropped_bytes(),
            ..ended
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// The main process has been waited for.
    pub(crate) fn main_was_collected(&self) {
        self.lock().main_collected = true;
    }

    /// Asks the supervisor to end the command, beginning with `first`.
    pub(crate) fn request_end(&self, first: Signal) {
        // A supervisor that is gone has recorded the end.
        let _ = self.end_requests.send(first);
    }

    /// Whether nobody is promised the output any more.
    pub(crate) fn may_be_forgotten(&self) -> bool {
        self.lock().own_reader == OwnReader::Absent
    }

    /// From now on the output may be forgotten where memory is short, after that of commands that ended
    /// before.
    pub(crate) fn may_be_forgotten_in_need(self: &Arc<Self>) {
        let mut ended = self.budget.lock();
        // Those that are not kept any more would hold their memory for as long as they are listed.
        ended.retain(|command| command.strong_count() > 0);
        ended.push_back(Arc::downgrade(self));
    }

    /// Forgets the output; the end stays. A reader that is not through keeps it.
    pub(crate) fn forget_output(&self) {
        let mut state = self.lock();
        if state.own_reader != OwnReader::Absent {
            return;
        }
        let before = state.log.cost();
        state.log.clear();
        self.budget.moved(before, state.log.cost());
    }

    pub(crate) fn started_event(&self) -> v1::Started {
        v1::Started {
            command_id: self.spec.id.clone(),
            started_at_ms: self.started_at_ms,
            timeout_ms: self.spec.timeout.map_or(0, |limit| limit.as_millis() as u64),
            detached: self.spec.detached,
        }
    }

    pub(crate) fn status(&self) -> v1::CommandStatus {
        let state = self.lock();
        v1::CommandStatus {
            started: Some(self.started_event()),
            ended: state.ended,
            stdout_bytes: state.log.stdout_bytes(),
            stderr_bytes: state.log.stderr_bytes(),
            dropped_bytes: state.log.dropped_bytes(),
            cwd: self.spec.cwd.to_string_lossy().into_owned(),
            argv: self.spec.argv.iter().take(STATUS_ARGS).map(|arg| beginning(arg)).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ladder::Target for Command {
    fn owner(&self) -> Owner<'_> {
        Owner {
            command_id: &self.spec.id,
            main: self.main,
            main_collected: self.lock().main_collected,
            mark: self.mark,
        }
    }
}

/// One look into a command.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) chunk: Option<Chunk>,
    pub(crate) next_seq: u64,
    pub(crate) ended: Option<v1::Ended>,
}

/// The place of a command's own reader: while it exists the log keeps what the reader has not read.
///
/// Dropping it means that the reader went away without a word, so the place is held for
/// [`READER_HOLD`]; whoever attaches meanwhile takes it.
#[derive(Debug)]
pub(crate) struct Place {
    command: Arc<Command>,
}

impl Place {
    /// The place of the caller that started the command, before the first record.
    pub(crate) fn first(command: &Arc<Command>) -> Self {
        Self::at(command, &mut command.lock(), 1)
    }

    /// The place of a reader that went away, if it is still held, for one that has everything before
    /// record `next`.
    pub(crate) fn take_over(command: &Arc<Command>, next: u64) -> Option<Self> {
        let mut state = command.lock();
        // One that claims to have what is not written yet is not the reader that went away.
        let awaited = matches!(state.own_reader, OwnReader::Awaited(_)) && next <= state.log.next_seq();
        awaited.then(|| Self::at(command, &mut state, next))
    }

    fn at(command: &Arc<Command>, state: &mut State, next: u64) -> Self {
        state.own_reader = OwnReader::Reading;
        state.log.set_anchor(next);
        Self { command: Arc::clone(command) }
    }

    /// The reader has everything before record `next`.
    pub(crate) fn advance(&self, next: u64) {
        let mut state = self.command.lock();
        if state.own_reader == OwnReader::Reading {
            state.log.set_anchor(next);
            drop(state);
            self.command.made_room.notify_waiters();
        }
    }

    /// The reader needs nothing more.
    pub(crate) fn leave(self) {
        self.command.stop_waiting_for_reader(OwnReader::Reading);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.command.lock();
        if state.own_reader != OwnReader::Reading {
            return;
        }
        state.holds += 1;
        let hold = OwnReader::Awaited(state.holds);
        state.own_reader = hold;
        drop(state);
        let command = Arc::clone(&self.command);
        tokio::spawn(async move {
            tokio::time::sleep(READER_HOLD).await;
            command.stop_waiting_for_reader(hold);
        });
    }
}

impl Command {
    fn stop_waiting_for_reader(&self, expected: OwnReader) {
        let mut state = self.lock();
        if state.own_reader != expected {
            return;
        }
        state.own_reader = OwnReader::Absent;
        let before = state.log.cost();
        state.log.release_anchor();
        self.budget.moved(before, state.log.cost());
        drop(state);
        self.made_room.notify_waiters();
    }
}

/// The first bytes of `text`, cut between characters.
fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(STATUS_ARG_BYTES)].to_owned()
}

pub(crate) fn epoch_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_gone_are_not_listed_for_ever() {
        let budget = Arc::new(LogBudget::default());
        for _ in 0..3 {
            let spec = Spec {
                id: "cmd".into(),
                argv: Vec::new(),
                cwd: PathBuf::new(),
                timeout: None,
                detached: false,
            };
            let (command, _) = Command::new(spec, Pid::INIT, None, Stdin::new(None), Arc::clone(&budget));
            command.may_be_forgotten_in_need();
        }
        assert_eq!(budget.lock().len(), 1);
    }
}
