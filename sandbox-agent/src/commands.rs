//! All commands of the sandbox, running and ended.
//!
//! Owns admission (ids, limits); [`Kept`] owns retention. The same id is the same command for as long as it is kept,
//! so a caller that did not hear the answer may ask again. Starting awaits nothing, but for a command that may not
//! write: its process has to tell first that it became the command, and until then its id is taken.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, start_request::Program};
use rustix::process::{Resource, WaitStatus, getrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::capture::Capture;
use crate::command::{Command, LogBudget, Spec};
use crate::kept::{Begun, Kept, Known, Remembered};
use crate::ladder;
use crate::leftovers::{Leftovers, Running};
use crate::limits::{
    COLLECT_PAUSE, COLLECT_TRIES, MAX_ID_BYTES, MAX_RUNNING_COMMANDS, MAX_SCRIPT_BYTES, MAX_STDIN_BYTES,
};
use crate::oom;
use crate::place::Place;
use crate::read_only;
use crate::reaper::Reaper;
use crate::spawn::{self, Launch, Spawned};
use crate::stdin::{Stdin, write_first};
use crate::supervisor::Supervisor;

/// The limit that a start runs into when the sandbox is full of processes.
const PROCESSES: &str = "processes";

/// The commands of this sandbox.
#[derive(Debug)]
pub(crate) struct Commands {
    workspace: PathBuf,
    reaper: Arc<Reaper>,
    leftovers: Arc<Leftovers>,
    budget: Arc<LogBudget>,
    kept: Mutex<Kept>,
    /// Woken when an id is not starting any more.
    settled: Notify,
}

/// What a request to start a command came to.
#[derive(Debug)]
pub(crate) enum StartedCommand {
    /// A command and, for the caller whose request started it, the place of its own reader.
    Kept { command: Arc<Command>, place: Option<Place> },
    /// It ended long ago.
    Remembered(Remembered),
}

/// How the caller of a start hears of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It may read the log later.
    Plain,
    /// It is the command's own reader.
    Streamed,
}

/// What a command is given to read.
#[derive(Debug)]
struct Input {
    given: Option<bytes::Bytes>,
    stays_open: bool,
}

/// A process that is the command, or is about to be.
#[derive(Debug)]
struct Launched {
    spec: Spec,
    spawned: Spawned,
    status: oneshot::Receiver<WaitStatus>,
    input: Input,
    oom_kills_before: Option<u64>,
    /// The reader of the caller, by its number.
    reader: u64,
}

/// Keeps an id from being started twice, for as long as it lives.
#[derive(Debug)]
struct Starting {
    commands: Arc<Commands>,
    id: String,
}

impl Starting {
    fn new(commands: &Arc<Commands>, id: String) -> Self {
        commands.lock().starting.insert(id.clone(), None);
        Self { commands: Arc::clone(commands), id }
    }

    /// The id has a process.
    fn begin(&self, process: &Spawned) {
        let begun = Begun { id: self.id.clone(), main: process.pid, mark: process.mark };
        self.commands.lock().starting.insert(self.id.clone(), Some(Arc::new(begun)));
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.commands.lock().starting.remove(&self.id);
        self.commands.settled.notify_waiters();
    }
}

impl Commands {
    pub(crate) fn new(workspace: PathBuf, reaper: Arc<Reaper>, leftovers: &Arc<Leftovers>) -> Arc<Self> {
        let commands = Arc::new(Self {
            workspace,
            reaper,
            leftovers: Arc::clone(leftovers),
            budget: Arc::default(),
            kept: Mutex::default(),
            settled: Notify::new(),
        });
        let set: Arc<dyn Running> = commands.clone();
        leftovers.spare(Arc::downgrade(&set));
        commands
    }

    /// The command with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Command>, Kind> {
        self.lock().get(id).ok_or_else(|| unknown(id))
    }

    /// What is known of the command with this id, with or without its log.
    pub(crate) fn find(&self, id: &str) -> Result<Known, Kind> {
        self.lock().find(id).ok_or_else(|| unknown(id))
    }

    pub(crate) fn running(&self) -> usize {
        self.lock().running()
    }

    /// Commands whose end sandboxd has not recorded, once it has recorded those numbered `recorded`.
    pub(crate) fn unrecorded(&self, recorded: &HashSet<u64>, after: u64) -> v1::ListCommandsReply {
        let mut kept = self.lock();
        kept.were_recorded(recorded);
        kept.unrecorded(after)
    }

    /// Starts a command, or finds the one that has this id.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: v1::StartRequest,
        opening: Opening,
    ) -> Result<StartedCommand, Kind> {
        check_id("command_id", &request.command_id)?;
        self.until_settled(&request.command_id).await;
        if let Ok(known) = self.find(&request.command_id) {
            return known_again(known, &request, opening);
        }
        if self.running() >= MAX_RUNNING_COMMANDS {
            return Err(Kind::LimitReached(v1::LimitReached {
                limit: "running commands".into(),
                value: MAX_RUNNING_COMMANDS as u64,
            }));
        }
        let argv = argv_of(request.program)?;
        if request.stdin.as_ref().is_some_and(|stdin| stdin.len() > MAX_STDIN_BYTES) {
            return Err(too_long("stdin", MAX_STDIN_BYTES));
        }
        let spec = Spec {
            id: request.command_id,
            number: self.lock().next_number(),
            digest: request.request_digest,
            argv,
            cwd: self.workspace.join(&request.cwd),
            timeout: (request.timeout_ms > 0).then(|| Duration::from_millis(request.timeout_ms)),
            detached: request.detached,
        };
        let input = Input { given: request.stdin, stays_open: request.open_stdin };
        let mut held = None;
        let started = match self.spawn(&spec, &request.env, &input, request.read_only) {
            Err(refusal) if is_process_limit(&refusal) => {
                held = Some(Starting::new(self, spec.id.clone()));
                self.leftovers.end().await;
                self.spawn_when_collected(&spec, &request.env, &input, request.read_only).await?
            }
            other => other?,
        };
        let (spawned, status) = started;
        // Asked after the fork, while the command loads on another processor.
        let oom_kills_before = oom::kills_so_far();
        let mut launched =
            Launched { spec, spawned, status, input, oom_kills_before, reader: request.reader };
        match launched.spawned.report.take() {
            None => Ok(self.take_in(launched, opening)),
            Some(report) => {
                let starting = held.unwrap_or_else(|| Starting::new(self, launched.spec.id.clone()));
                take_in_later(starting, launched, report, opening).await
            }
        }
    }

    fn spawn(
        &self,
        spec: &Spec,
        env: &HashMap<String, String>,
        input: &Input,
        read_only: bool,
    ) -> Result<(Spawned, oneshot::Receiver<WaitStatus>), Kind> {
        let spawned = spawn::spawn(&Launch {
            command_id: &spec.id,
            argv: &spec.argv,
            cwd: &spec.cwd,
            env,
            with_stdin: input.given.is_some() || input.stays_open,
            read_only: read_only.then_some(&self.workspace),
        })
        .map_err(refusal_of)?;
        let status = self.reaper.expect(spawned.pid);
        Ok((spawned, status))
    }

    /// Tries again for a moment: a process that was killed counts until it is collected.
    async fn spawn_when_collected(
        &self,
        spec: &Spec,
        env: &HashMap<String, String>,
        input: &Input,
        read_only: bool,
    ) -> Result<(Spawned, oneshot::Receiver<WaitStatus>), Kind> {
        for _ in 0..COLLECT_TRIES {
            match self.spawn(spec, env, input, read_only) {
                Err(refusal) if is_process_limit(&refusal) => sleep(COLLECT_PAUSE).await,
                other => return other,
            }
        }
        self.spawn(spec, env, input, read_only)
    }

    fn take_in(self: &Arc<Self>, launched: Launched, opening: Opening) -> StartedCommand {
        let Launched { spec, spawned, status, input, oom_kills_before, reader } = launched;
        let (to_feed, to_keep) = match (input.stays_open, spawned.stdin) {
            (true, pipe) => (None, pipe),
            (false, pipe) => (pipe, None),
        };
        let (command, requests) =
            Command::new(spec, spawned.pid, spawned.mark, Stdin::new(to_keep), Arc::clone(&self.budget));
        let place = own_place(&command, opening, reader);
        self.lock().insert(&command);
        match (to_feed, input.given) {
            (Some(pipe), Some(data)) => drop(tokio::spawn(feed(pipe, data))),
            (None, Some(data)) => write_first(&command, data),
            (_, None) => {}
        }
        let supervisor = Supervisor { command: Arc::clone(&command), status, requests, oom_kills_before };
        let capture = Capture::new(spawned.stdout, spawned.stderr);
        let commands = Arc::clone(self);
        let ending = Arc::clone(&command);
        tokio::spawn(async move {
            supervisor.run(capture).await;
            commands.retire(&ending);
            ending.stdin.close_at_end().await;
        });
        StartedCommand::Kept { command, place }
    }

    /// Waits until it is known whether the command that is starting under this id is one.
    async fn until_settled(&self, id: &str) {
        loop {
            let settled = self.settled.notified();
            if !self.lock().starting.contains_key(id) {
                return;
            }
            settled.await;
        }
    }

    fn retire(&self, command: &Arc<Command>) {
        command.may_be_forgotten_in_need();
        self.lock().retire(command);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a command in once its process has become it. Goes on where the caller does not wait for the answer,
/// because the command may be running by then.
async fn take_in_later(
    starting: Starting,
    launched: Launched,
    report: pipe::Receiver,
    opening: Opening,
) -> Result<StartedCommand, Kind> {
    starting.begin(&launched.spawned);
    let task = tokio::spawn(async move {
        let program = launched.spec.argv.first().cloned().unwrap_or_default();
        read_only::has_become(report, launched.spawned.pid, &program).await?;
        Ok(starting.commands.take_in(launched, opening))
    });
    task.await.unwrap_or_else(|_| Err(invalid("program", "could not be followed".into())))
}

/// The answer to a request whose id has a command: the same command, if the request is the same.
fn known_again(known: Known, request: &v1::StartRequest, opening: Opening) -> Result<StartedCommand, Kind> {
    if !known.is_from(&request.request_digest) {
        return Err(Kind::CommandDiffers(v1::CommandUnknown { command_id: request.command_id.clone() }));
    }
    Ok(match known {
        Known::Kept(command) => {
            // Where the first call's connection broke, this is the same caller once more.
            let place = match opening {
                Opening::Plain => None,
                Opening::Streamed => Place::take_over(&command, 1, request.reader),
            };
            StartedCommand::Kept { command, place }
        }
        Known::Remembered(remembered) => StartedCommand::Remembered(remembered),
    })
}

impl Running for Commands {
    fn targets(&self) -> Vec<Arc<dyn ladder::Target + Send + Sync>> {
        self.lock().targets()
    }
}

/// Whether a start was refused because the sandbox has as many processes as it may have.
pub(crate) fn is_process_limit(refusal: &Kind) -> bool {
    matches!(refusal, Kind::LimitReached(fault) if fault.limit == PROCESSES)
}

/// A process too many is a limit that is reached, and passes; anything else is the command's own fault.
pub(crate) fn refusal_of(fault: v1::StartFailed) -> Kind {
    if fault.step != "fork" {
        return Kind::StartFailed(fault);
    }
    let value = getrlimit(Resource::Nproc).current.unwrap_or(0);
    Kind::LimitReached(v1::LimitReached { limit: PROCESSES.into(), value })
}

/// Writes a command's standard input and closes it.
async fn feed(mut pipe: pipe::Sender, data: bytes::Bytes) {
    // A command that does not read its input to the end closes the pipe, which is its right.
    let _ = pipe.write_all(&data).await;
}

fn argv_of(program: Option<Program>) -> Result<Vec<String>, Kind> {
    match program {
        Some(Program::Script(script)) if script.len() > MAX_SCRIPT_BYTES => {
            Err(too_long("script", MAX_SCRIPT_BYTES))
        }
        Some(Program::Script(script)) => Ok(spawn::argv_of_script(&script)),
        Some(Program::Argv(argv)) => Ok(std::iter::once(argv.program).chain(argv.args).collect()),
        None => Err(invalid("program", "is missing".into())),
    }
}

/// The place of the caller that started a command. An older sandboxd does not say when the reader of a detached one
/// leaves, so that reader has none.
fn own_place(command: &Arc<Command>, opening: Opening, reader: u64) -> Option<Place> {
    match opening {
        Opening::Plain => {
            command.expect_reader();
            None
        }
        Opening::Streamed => (!command.spec.detached || reader != 0).then(|| Place::first(command, reader)),
    }
}

fn unknown(id: &str) -> Kind {
    Kind::CommandUnknown(v1::CommandUnknown { command_id: id.into() })
}

pub(crate) fn check_id(field: &str, id: &str) -> Result<(), Kind> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(known) {
        return Err(invalid(field, format!("is not 1 to {MAX_ID_BYTES} letters or digits")));
    }
    Ok(())
}

fn too_long(field: &str, max_bytes: usize) -> Kind {
    invalid(field, format!("is longer than {max_bytes} bytes"))
}

pub(crate) fn invalid(field: &str, problem: String) -> Kind {
    Kind::FieldInvalid(v1::FieldInvalid { field: field.into(), problem })
}
