//! All commands of the sandbox, running and ended.
//!
//! Checks ids and limits of new commands. [`CommandRegistry`] decides how long they are kept. Meanwhile, a command's id
//! refers to it, so a caller that missed the response may repeat the request. Starting a command awaits nothing, except
//! at the process limit, where what other commands have left is ended first. Until then its id is reserved.

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
use crate::command::{Command, CommandParts, LogBudget, Spec};
use crate::leftovers::{Leftovers, Running};
use crate::limits::{
    MAX_ID_BYTES, MAX_RUNNING_COMMANDS, MAX_SCRIPT_BYTES, MAX_STDIN_BYTES, REAP_PAUSE, REAP_TRIES,
    SHELL_PROCESSES,
};
use crate::log_position::LogPosition;
use crate::oom;
use crate::output_files::{OutputDirectory, OutputFile};
use crate::reaper::Reaper;
use crate::registry::{CommandRegistry, Known, Remembered};
use crate::secrets::Secrets;
use crate::spawn::{self, Launch, Spawned};
use crate::stages::{self, Stages};
use crate::stdin::Stdin;
use crate::stdin_writer::write_first;
use crate::supervisor::Supervisor;
use crate::termination;
use crate::waiting_shells::WaitingShells;

/// Name of the limit in the error when the sandbox is at its process limit.
const PROCESSES: &str = "processes";

/// The commands of this sandbox.
#[derive(Debug)]
pub(crate) struct Commands {
    workspace: PathBuf,
    /// Absent in a volume that an earlier version created.
    output_directory: Option<Arc<OutputDirectory>>,
    reaper: Arc<Reaper>,
    leftovers: Arc<Leftovers>,
    waiting_shells: Arc<WaitingShells>,
    budget: Arc<LogBudget>,
    registry: Mutex<CommandRegistry>,
    /// Notified when an id is no longer starting.
    start_finished: Notify,
}

/// Result of a request to start a command.
#[derive(Debug)]
pub(crate) enum StartedCommand {
    /// A command and, for the caller that started it, the position of its primary reader.
    Kept { command: Arc<Command>, position: Option<LogPosition> },
    /// A command that ended long ago.
    Remembered(Box<Remembered>),
}

/// How the caller of a start reads the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    /// It may read the log later.
    Later,
    /// It is the command's primary reader.
    Streamed,
}

/// Standard input of a new command.
#[derive(Debug)]
struct Input {
    given: Option<bytes::Bytes>,
    stays_open: bool,
}

impl Input {
    /// What there is of it at the start. `None` if there is no input at all.
    fn beginning(&self) -> Option<&[u8]> {
        match &self.given {
            Some(given) => Some(given),
            None if self.stays_open => Some(&[]),
            None => None,
        }
    }

    /// What is still to be written, after this many bytes were.
    fn rest(&self, written: usize) -> Option<bytes::Bytes> {
        self.given.as_ref().map(|given| given.slice(written..)).filter(|rest| !rest.is_empty())
    }
}

/// A process that has been started and is not in the registry yet.
#[derive(Debug)]
struct Launched {
    spec: Spec,
    spawned: Spawned,
    status: oneshot::Receiver<WaitStatus>,
    input: Input,
    stages: Option<Stages>,
    oom_kills_before: Option<u64>,
    /// Number of the caller's reader.
    reader: u64,
}

/// Reserves an id while its command starts.
#[derive(Debug)]
struct Starting {
    commands: Arc<Commands>,
    id: String,
}

impl Starting {
    fn new(commands: &Arc<Commands>, id: String) -> Self {
        commands.lock().starting.insert(id.clone());
        Self { commands: Arc::clone(commands), id }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.commands.lock().starting.remove(&self.id);
        self.commands.start_finished.notify_waiters();
    }
}

impl Commands {
    pub(crate) fn new(
        workspace: PathBuf,
        reaper: Arc<Reaper>,
        leftovers: &Arc<Leftovers>,
        waiting_shells: Arc<WaitingShells>,
    ) -> Arc<Self> {
        let output_directory = OutputDirectory::open(&workspace).ok().map(Arc::new);
        let commands = Arc::new(Self {
            workspace,
            output_directory,
            reaper,
            leftovers: Arc::clone(leftovers),
            waiting_shells,
            budget: Arc::default(),
            registry: Mutex::default(),
            start_finished: Notify::new(),
        });
        let set: Arc<dyn Running> = commands.clone();
        leftovers.spare(Arc::downgrade(&set));
        commands
    }

    /// Returns the command with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Command>, Kind> {
        self.lock().get(id).ok_or_else(|| unknown(id))
    }

    /// Returns what is known about the command with this id, with or without its log.
    pub(crate) fn find(&self, id: &str) -> Result<Known, Kind> {
        self.lock().find(id).ok_or_else(|| unknown(id))
    }

    pub(crate) fn running(&self) -> usize {
        self.lock().running()
    }

    /// Lists commands whose end sandboxd has not recorded. `recorded` are the numbers that it has recorded since.
    pub(crate) fn unrecorded(&self, recorded: &HashSet<u64>, after: u64) -> v1::ListCommandsReply {
        let mut registry = self.lock();
        registry.set_recorded(recorded);
        registry.unrecorded(after)
    }

    /// Starts a command, or returns the one with this id.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: v1::StartRequest,
        output_mode: OutputMode,
    ) -> Result<StartedCommand, Kind> {
        check_id("command_id", &request.command_id)?;
        self.wait_while_starting(&request.command_id).await;
        if let Ok(known) = self.find(&request.command_id) {
            return answer_repeated_start(known, &request, output_mode);
        }
        if self.running() >= MAX_RUNNING_COMMANDS {
            return Err(Kind::LimitReached(v1::LimitReached {
                limit: "running commands".into(),
                value: MAX_RUNNING_COMMANDS as u64,
            }));
        }
        if request.debug && !matches!(request.program, Some(Program::Script(_))) {
            return Err(invalid("debug", "needs a script".into()));
        }
        let resource_limits = request.resource_limits.unwrap_or_default();
        let is_counted = resource_limits.loop_iterations > 0;
        if is_counted && (request.debug || !matches!(request.program, Some(Program::Script(_)))) {
            return Err(invalid("loop_iterations", "needs a script without debug".into()));
        }
        let stages = stages_of(request.stages, request.program.as_ref(), request.debug)?;
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
            output_file_after: request.output_file_after,
            debug: request.debug,
            secrets: Secrets::new(request.secrets),
            resource_limits,
        };
        let input = Input { given: request.stdin, stays_open: request.open_stdin };
        let spawn = || self.spawn(&spec, &request.env, &input, request.read_only, stages.as_ref());
        let started = match spawn() {
            Err(error) if is_process_limit(&error) => {
                let _reserved = Starting::new(self, spec.id.clone());
                self.leftovers.end().await;
                spawn_after_reaping(spawn).await
            }
            other => other,
        };
        let (spawned, status) = started?;
        // Read after the fork, while the command loads on another processor.
        let oom_kills_before = oom::kills_so_far();
        let launched =
            Launched { spec, spawned, status, input, stages, oom_kills_before, reader: request.reader };
        Ok(self.register(launched, output_mode))
    }

    fn spawn(
        &self,
        spec: &Spec,
        env: &HashMap<String, String>,
        input: &Input,
        read_only: bool,
        stages: Option<&Stages>,
    ) -> Result<(Spawned, oneshot::Receiver<WaitStatus>), Kind> {
        let mut spawned = spawn::spawn(&Launch {
            command_id: &spec.id,
            argv: &spec.argv,
            cwd: &spec.cwd,
            env,
            stdin: input.beginning(),
            with_trace: spec.debug,
            max_loop_iterations: spec.resource_limits.loop_iterations,
            stages,
            read_only: read_only.then_some(&self.workspace),
            keep: &[],
            waiting_shells: Some(&self.waiting_shells),
        })
        .map_err(start_error)?;
        let status = spawned.status.take().unwrap_or_else(|| self.reaper.expect(spawned.pid));
        Ok((spawned, status))
    }

    fn register(self: &Arc<Self>, launched: Launched, output_mode: OutputMode) -> StartedCommand {
        let Launched { spec, spawned, status, input, stages, oom_kills_before, reader } = launched;
        let (to_write, to_keep_open) = match (input.stays_open, spawned.stdin) {
            (true, pipe) => (None, pipe),
            (false, pipe) => (pipe, None),
        };
        let output_file = self.output_directory.as_ref().zip(spec.output_file_after);
        let output_file = output_file
            .map(|(directory, threshold)| OutputFile::new(Arc::clone(directory), &spec.id, threshold));
        let parts = CommandParts {
            main: spawned.pid,
            mark: spawned.mark,
            stdin: Stdin::new(to_keep_open),
            output_file,
            budget: Arc::clone(&self.budget),
        };
        let (command, requests) = Command::new(spec, parts);
        let position = initial_position(&command, output_mode, reader);
        self.lock().insert(&command);
        if let Some(listener) = spawned.announcements {
            let first = Arc::clone(&command.read_only_violation);
            tokio::spawn(listener.serve(first, self.workspace.clone()));
        }
        match (to_write, input.rest(spawned.stdin_written)) {
            (Some(pipe), Some(data)) => drop(tokio::spawn(write_and_close(pipe, data))),
            (None, Some(data)) => write_first(&command, data),
            // Otherwise the whole input is in the pipe, which is closed here.
            (_, None) => {}
        }
        let supervisor =
            Supervisor { command: Arc::clone(&command), status, requests, oom_kills_before, stages };
        let capture =
            Capture::new(spawned.stdout, spawned.stderr, spawned.trace, command.spec.secrets.as_ref());
        let commands = Arc::clone(self);
        let ending = Arc::clone(&command);
        tokio::spawn(async move {
            supervisor.run(capture).await;
            commands.waiting_shells.command_ended();
            commands.add_ended(&ending);
            ending.stdin.close_at_end().await;
        });
        StartedCommand::Kept { command, position }
    }

    /// Waits until a command that is starting under this id has started or failed.
    async fn wait_while_starting(&self, id: &str) {
        loop {
            let start_finished = self.start_finished.notified();
            if !self.lock().starting.contains(id) {
                return;
            }
            start_finished.await;
        }
    }

    fn add_ended(&self, command: &Arc<Command>) {
        command.allow_discarding();
        self.lock().add_ended(command);
    }

    fn lock(&self) -> MutexGuard<'_, CommandRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Retries for a short time, because a killed process counts until it is reaped.
async fn spawn_after_reaping<T>(spawn: impl Fn() -> Result<T, Kind>) -> Result<T, Kind> {
    for _ in 0..REAP_TRIES {
        match spawn() {
            Err(error) if is_process_limit(&error) => sleep(REAP_PAUSE).await,
            other => return other,
        }
    }
    spawn()
}

/// Answers a request whose id already has a command. The same request gets the same command.
fn answer_repeated_start(
    known: Known,
    request: &v1::StartRequest,
    output_mode: OutputMode,
) -> Result<StartedCommand, Kind> {
    if !known.is_from(&request.request_digest) {
        return Err(Kind::CommandDiffers(v1::CommandUnknown { command_id: request.command_id.clone() }));
    }
    Ok(match known {
        Known::Kept(command) => {
            // The same caller repeats its request if the connection of its first call broke.
            let position = match output_mode {
                OutputMode::Later => None,
                OutputMode::Streamed => LogPosition::take_over(&command, 1, request.reader),
            };
            StartedCommand::Kept { command, position }
        }
        Known::Remembered(remembered) => StartedCommand::Remembered(remembered),
    })
}

impl Running for Commands {
    fn targets(&self) -> Vec<Arc<dyn termination::Target + Send + Sync>> {
        self.lock().targets()
    }
}

/// Whether a start was rejected because the sandbox is at its process limit.
pub(crate) fn is_process_limit(error: &Kind) -> bool {
    matches!(error, Kind::LimitReached(fault) if fault.limit == PROCESSES)
}

/// Maps a failed fork to the process limit, which is temporary, and a failed restriction to what the kernel lacks. Every
/// other failure is the command's own.
pub(crate) fn start_error(fault: v1::StartFailed) -> Kind {
    match fault.step.as_str() {
        "fork" => {
            // Those of waiting shells are not the sandbox's own (`SHELL_PROCESSES` of sandboxd).
            let value = getrlimit(Resource::Nproc).current.unwrap_or(0).saturating_sub(SHELL_PROCESSES);
            Kind::LimitReached(v1::LimitReached { limit: PROCESSES.into(), value })
        }
        spawn::RESTRICTION => Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: fault.errno }),
        _ => Kind::StartFailed(fault),
    }
}

/// Writes a command's standard input and closes it.
async fn write_and_close(mut pipe: pipe::Sender, data: bytes::Bytes) {
    // A command may close its input without reading all of it.
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

/// Prepares the report of a pipeline's stages, if it is requested.
fn stages_of(
    requested: Vec<v1::PipelineStage>,
    program: Option<&Program>,
    debug: bool,
) -> Result<Option<Stages>, Kind> {
    if requested.is_empty() {
        return Ok(None);
    }
    let Some(Program::Script(script)) = program.filter(|_| !debug) else {
        return Err(invalid("stages", "need a script without debug".into()));
    };
    stages::check(script, &requested).map_err(|problem| invalid("stages", problem))?;
    let stages = Stages::new(requested);
    stages.map(Some).map_err(|errno| start_error(spawn::failed("script", "memory of the stages", errno)))
}

/// Returns the log position of the caller that started a command. An older sandboxd does not report when the reader
/// of a detached command leaves, so that reader gets no position.
fn initial_position(command: &Arc<Command>, output_mode: OutputMode, reader: u64) -> Option<LogPosition> {
    match output_mode {
        OutputMode::Later => {
            command.expect_reader();
            None
        }
        OutputMode::Streamed => {
            (!command.spec.detached || reader != 0).then(|| LogPosition::first(command, reader))
        }
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
