//! One command: what it was started with, its log, and how it ended.
//!
//! Owns the state that readers and the supervisor share. That includes the command's primary reader (the caller of
//! Run). Its position decides what the log must keep and when the command has to wait. See [`crate::log_position`].

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent_protocol::v1;
use bytes::Bytes;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc};
use tokio::time::{self, timeout_at};

use crate::limits::{
    ALL_LOGS_BYTES, LOG_BYTES, REPEATED_LOG_BYTES, SMALL_LOG_BYTES, STATUS_ARG_BYTES, STATUS_ARGS,
};
use crate::mark::Mark;
use crate::members::Owner;
use crate::output::{Chunk, Log, Stream};
use crate::output_files::OutputFile;
use crate::primary_reader::PrimaryReader;
use crate::secrets::{Secrets, redacted};
use crate::stdin::Stdin;
use crate::termination;

/// Total size of all logs, and the ended commands whose output can be discarded when the total is too high.
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

    pub(crate) fn adjust(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Discards the output of ended commands, the oldest first. Returns whether memory is still short.
    fn discard_until_under_limit(&self) -> bool {
        while self.is_short() {
            let oldest = self.lock().pop_front();
            match oldest {
                Some(command) => command.upgrade().into_iter().for_each(|command| command.discard_output()),
                None => return true,
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Command>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parameters of a started command.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) id: String,
    /// Sequence number of the command in this agent.
    pub(crate) number: u64,
    /// Identifies the request. Empty if it is not known.
    pub(crate) digest: Bytes,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) timeout: Option<Duration>,
    pub(crate) detached: bool,
    /// Number of bytes after which the output gets a file. Without it, it gets none.
    pub(crate) output_file_after: Option<u64>,
    /// Whether bash reports the commands that it runs.
    pub(crate) debug: bool,
    /// Values that must not be in the output.
    pub(crate) secrets: Option<Arc<Secrets>>,
    /// What the command may use.
    pub(crate) resource_limits: v1::ResourceLimits,
}

/// What a command consists of beside its parameters.
#[derive(Debug)]
pub(crate) struct CommandParts {
    pub(crate) main: Pid,
    /// The mark that the main process carries.
    pub(crate) mark: Option<Mark>,
    pub(crate) stdin: Stdin,
    pub(crate) output_file: Option<Arc<OutputFile>>,
    pub(crate) budget: Arc<LogBudget>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) log: Log,
    pub(crate) primary_reader: PrimaryReader,
    /// Number that sandboxd gave to the primary reader. 0 if it is not known.
    pub(crate) reader: u64,
    numbers: u64,
    main_collected: bool,
    ended: Option<v1::Ended>,
}

impl State {
    /// Returns a number for the next read or reservation.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Maximum size of the log while memory is short.
    fn short_limit(&self) -> usize {
        if self.primary_reader == PrimaryReader::Absent { SMALL_LOG_BYTES } else { REPEATED_LOG_BYTES }
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
    output_file: Option<Arc<OutputFile>>,
    /// The first write that was refused because the command is read-only.
    pub(crate) read_only_violation: Arc<OnceLock<v1::ReadOnlyViolation>>,
    state: Mutex<State>,
    /// Notified by every record and by the end.
    pub(crate) changed: Notify,
    /// Notified when the log may have room again.
    pub(crate) made_room: Notify,
    end_requests: mpsc::UnboundedSender<Signal>,
    pub(crate) budget: Arc<LogBudget>,
}

impl Command {
    /// Creates a command. The receiver is for its supervisor.
    pub(crate) fn new(spec: Spec, parts: CommandParts) -> (Arc<Self>, mpsc::UnboundedReceiver<Signal>) {
        let CommandParts { main, mark, stdin, output_file, budget } = parts;
        let (end_requests, requested) = mpsc::unbounded_channel();
        let command = Self {
            spec,
            started: Instant::now(),
            stdin,
            started_at_ms: epoch_ms(),
            main,
            mark,
            output_file,
            read_only_violation: Arc::default(),
            state: Mutex::new(State {
                log: Log::new(LOG_BYTES),
                primary_reader: PrimaryReader::Absent,
                reader: 0,
                numbers: 0,
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
        if let Some(file) = self.output_file.as_ref().filter(|_| stream.is_output()) {
            file.push(&data);
        }
        let short = self.budget.discard_until_under_limit();
        let mut state = self.lock();
        if short {
            self.check_first_reader(&mut state, true);
        }
        let before = state.log.cost();
        state.log.push(stream, data);
        if short {
            let limit = state.short_limit();
            state.log.trim_to(limit);
        }
        self.budget.adjust(before, state.log.cost());
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until the output may grow.
    pub(crate) async fn wait_for_room(&self) {
        if let Some(file) = &self.output_file {
            file.wait_for_room().await;
        }
        self.wait_for_log_room().await;
    }

    /// Waits until the log may grow.
    async fn wait_for_log_room(&self) {
        loop {
            let made_room = self.made_room.notified();
            let is_short = self.budget.is_short();
            let limit = if is_short { REPEATED_LOG_BYTES } else { LOG_BYTES };
            let expected_until = {
                let mut state = self.lock();
                let expected_until = self.check_first_reader(&mut state, is_short);
                if state.log.has_room(limit) {
                    return;
                }
                expected_until
            };
            match expected_until {
                Some(until) => drop(timeout_at(until, made_room).await),
                None => made_room.await,
            }
        }
    }

    /// Stops waiting for a first reader that did not come in time, or at once if memory for logs is short. Otherwise
    /// returns the time until which it is expected.
    fn check_first_reader(&self, state: &mut State, is_short: bool) -> Option<time::Instant> {
        let PrimaryReader::Expected { until } = state.primary_reader else {
            return None;
        };
        if !is_short && time::Instant::now() < until {
            return Some(until);
        }
        self.release_position(state);
        None
    }

    /// Releases the primary reader's position. The log no longer keeps what that reader has not read.
    pub(crate) fn release_position(&self, state: &mut State) {
        state.primary_reader = PrimaryReader::Absent;
        let before = state.log.cost();
        state.log.release_anchor();
        self.budget.adjust(before, state.log.cost());
    }

    /// Number of bytes written to both outputs so far.
    pub(crate) fn output_bytes(&self) -> u64 {
        let state = self.lock();
        state.log.stdout_bytes().saturating_add(state.log.stderr_bytes())
    }

    /// Returns the sequence number of the next record to be written.
    pub(crate) fn next_seq(&self) -> u64 {
        self.lock().log.next_seq()
    }

    /// Returns the records after `after`, and the end if it is known. With `wait`, waits until there is one of them.
    /// With `or_position`, also returns when the position of the primary reader is free.
    pub(crate) async fn read(&self, after: u64, max_bytes: usize, wait: bool, or_position: bool) -> Read {
        loop {
            let changed = self.changed.notified();
            let read = self.read_now(after, max_bytes);
            let is_position_free = || matches!(self.lock().primary_reader, PrimaryReader::Reserved(_));
            if !wait || read.chunk.is_some() || read.ended.is_some() || (or_position && is_position_free()) {
                return read;
            }
            changed.await;
        }
    }

    fn read_now(&self, after: u64, max_bytes: usize) -> Read {
        let state = self.lock();
        Read {
            chunk: state.log.read(after, max_bytes),
            next_seq: state.log.next_seq(),
            ended: state.ended.clone(),
        }
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> v1::Ended {
        loop {
            let changed = self.changed.notified();
            if let Some(ended) = self.end_now() {
                return ended;
            }
            changed.await;
        }
    }

    /// Returns the end if the command has ended.
    pub(crate) fn end_now(&self) -> Option<v1::Ended> {
        self.lock().ended.clone()
    }

    /// Waits until the output so far is in its file, and describes the file.
    pub(crate) async fn output_file(&self) -> Option<v1::OutputFile> {
        match &self.output_file {
            Some(file) => file.result().await,
            None => None,
        }
    }

    /// Closes the output's file. No more output may follow.
    pub(crate) async fn close_output_file(&self) {
        if let Some(file) = &self.output_file {
            file.close().await;
        }
    }

    /// Records the end. Fills in the counts and the duration.
    pub(crate) fn finish(&self, ended: v1::Ended) {
        let mut state = self.lock();
        state.ended = Some(v1::Ended {
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            stdout_bytes: state.log.stdout_bytes(),
            stderr_bytes: state.log.stderr_bytes(),
            dropped_bytes: state.log.dropped_bytes(),
            read_only_violation: self.read_only_violation(),
            ..ended
        });
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the first write that was refused, without secrets.
    fn read_only_violation(&self) -> Option<v1::ReadOnlyViolation> {
        let violation = self.read_only_violation.get()?.clone();
        let path = match &self.spec.secrets {
            Some(secrets) => redacted(Arc::clone(secrets), &violation.path),
            None => violation.path,
        };
        Some(v1::ReadOnlyViolation { path, ..violation })
    }

    /// Records that the main process was reaped.
    pub(crate) fn set_main_collected(&self) {
        self.lock().main_collected = true;
    }

    /// Asks the supervisor to end the command, with `first` as the first signal.
    pub(crate) fn request_end(&self, first: Signal) {
        // A supervisor that is gone has recorded the end.
        let _ = self.end_requests.send(first);
    }

    /// Whether no reader needs the output any more. An expected reader does not count until it connects.
    pub(crate) fn is_discardable(&self) -> bool {
        !self.lock().primary_reader.has_position()
    }

    /// Allows to discard the output when memory is short, after that of commands that ended earlier.
    pub(crate) fn allow_discarding(self: &Arc<Self>) {
        let mut ended = self.budget.lock();
        // Entries of dropped commands would keep their memory allocated.
        ended.retain(|command| command.strong_count() > 0);
        ended.push_back(Arc::downgrade(self));
    }

    /// Discards the output and keeps the end. Does nothing while a reader still needs the output.
    pub(crate) fn discard_output(&self) {
        let mut state = self.lock();
        if state.primary_reader.has_position() {
            return;
        }
        state.primary_reader = PrimaryReader::Absent;
        let before = state.log.cost();
        state.log.clear();
        self.budget.adjust(before, state.log.cost());
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
            ended: state.ended.clone(),
            stdout_bytes: state.log.stdout_bytes(),
            stderr_bytes: state.log.stderr_bytes(),
            dropped_bytes: state.log.dropped_bytes(),
            cwd: self.spec.cwd.to_string_lossy().into_owned(),
            argv: self.spec.argv.iter().take(STATUS_ARGS).map(|arg| beginning(arg)).collect(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl termination::Target for Command {
    fn owner(&self) -> Owner<'_> {
        Owner {
            command_id: &self.spec.id,
            main: self.main,
            main_collected: self.lock().main_collected,
            mark: self.mark,
        }
    }
}

/// Result of a read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) chunk: Option<Chunk>,
    pub(crate) next_seq: u64,
    pub(crate) ended: Option<v1::Ended>,
}

/// Returns the first bytes of `text`, cut between characters.
fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(STATUS_ARG_BYTES)].to_owned()
}

pub(crate) fn epoch_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec() -> Spec {
        Spec {
            id: "cmd".into(),
            number: 1,
            digest: Bytes::new(),
            argv: Vec::new(),
            cwd: PathBuf::new(),
            timeout: None,
            detached: false,
            output_file_after: None,
            debug: false,
            secrets: None,
            resource_limits: v1::ResourceLimits::default(),
        }
    }

    /// A command without a process of its own.
    pub(crate) fn command(spec: Spec, budget: &Arc<LogBudget>) -> Arc<Command> {
        let parts = CommandParts {
            main: Pid::INIT,
            mark: None,
            stdin: Stdin::new(None),
            output_file: None,
            budget: Arc::clone(budget),
        };
        Command::new(spec, parts).0
    }

    #[test]
    fn dropped_commands_leave_the_list() {
        let budget = Arc::new(LogBudget::default());
        for _ in 0..3 {
            command(spec(), &budget).allow_discarding();
        }
        assert_eq!(budget.lock().len(), 1);
    }
}
