//! All commands of the sandbox, running and ended.
//!
//! Owns admission (ids, limits) and retention. The same id is the same command for as long as it is kept,
//! so a caller that did not hear the answer may ask again. Starting awaits nothing, but for a command that may not
//! write: its process has to tell first that it became the command, and until then its id is taken.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, start_request::Program};
use rustix::process::{Pid, Resource, WaitStatus, getrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::capture::Capture;
use crate::command::{Command, LogBudget, Place, Spec};
use crate::ladder;
use crate::leftovers::{Leftovers, Running};
use crate::limits::{
    COLLECT_PAUSE, COLLECT_TRIES, MAX_ENDED_COMMANDS, MAX_ID_BYTES, MAX_RUNNING_COMMANDS, MAX_SCRIPT_BYTES,
    MAX_STDIN_BYTES,
};
use crate::mark::Mark;
use crate::members::Owner;
use crate::oom;
use crate::read_only;
use crate::reaper::Reaper;
use crate::spawn::{self, Launch, Spawned};
use crate::stdin::{Stdin, write_first};
use crate::supervisor::Supervisor;

/// The limit that a start runs into when the sandbox is full of processes.
const PROCESSES: &str = "processes";

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Arc<Command>>,
    /// Ids whose processes have yet to become their commands, with the process where there is one.
    starting: HashMap<String, Option<Arc<Begun>>>,
    /// Ids in the order their commands ended.
    ended: VecDeque<String>,
}

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

/// A command and, for the caller whose request started it, the place of its own reader.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) command: Arc<Command>,
    pub(crate) place: Option<Place>,
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
}

/// Keeps an id from being started twice, for as long as it lives.
#[derive(Debug)]
struct Starting {
    commands: Arc<Commands>,
    id: String,
}

/// A process that has yet to become its command.
#[derive(Debug)]
struct Begun {
    id: String,
    main: Pid,
    mark: Option<Mark>,
}

impl ladder::Target for Begun {
    fn owner(&self) -> Owner<'_> {
        Owner { command_id: &self.id, main: self.main, main_collected: false, mark: self.mark }
    }
}

impl Starting {
    fn new(commands: &Arc<Commands>, id: String, process: Option<&Spawned>) -> Self {
        let begun =
            |spawned: &Spawned| Arc::new(Begun { id: id.clone(), main: spawned.pid, mark: spawned.mark });
        let begun = process.map(begun);
        commands.lock().starting.insert(id.clone(), begun);
        Self { commands: Arc::clone(commands), id }
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
        let found = self.lock().by_id.get(id).cloned();
        found.ok_or_else(|| Kind::CommandUnknown(v1::CommandUnknown { command_id: id.into() }))
    }

    pub(crate) fn running(&self) -> usize {
        let kept = self.lock();
        kept.by_id.len() + kept.starting.len() - kept.ended.len()
    }

    /// Starts a command, or finds the one that has this id. With `streamed` the caller is the command's
    /// own reader.
    pub(crate) async fn start(
        self: &Arc<Self>,
        request: v1::StartRequest,
        streamed: bool,
    ) -> Result<StartedCommand, Kind> {
        check_id("command_id", &request.command_id)?;
        self.until_settled(&request.command_id).await;
        if let Ok(command) = self.get(&request.command_id) {
            // Where the first call's connection broke, this is the same caller once more.
            let place = if streamed { Place::take_over(&command, 1) } else { None };
            return Ok(StartedCommand { command, place });
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
            argv,
            cwd: self.workspace.join(&request.cwd),
            timeout: (request.timeout_ms > 0).then(|| Duration::from_millis(request.timeout_ms)),
            detached: request.detached,
        };
        let input = Input { given: request.stdin, stays_open: request.open_stdin };
        let started = match self.spawn(&spec, &request.env, &input, request.read_only) {
            Err(refusal) if is_process_limit(&refusal) => {
                let starting = Starting::new(self, spec.id.clone(), None);
                self.leftovers.end().await;
                let again = self.spawn_when_collected(&spec, &request.env, &input, request.read_only).await;
                drop(starting);
                again?
            }
            other => other?,
        };
        let (spawned, status) = started;
        // Asked after the fork, while the command loads on another processor.
        let mut launched = Launched { spec, spawned, status, input, oom_kills_before: oom::kills_so_far() };
        match launched.spawned.report.take() {
            None => Ok(self.take_in(launched, streamed)),
            Some(report) => self.take_in_later(launched, report, streamed).await,
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

    /// Takes a command in once its process has become it. Goes on where the caller does not wait for the answer,
    /// because the command may be running by then.
    async fn take_in_later(
        self: &Arc<Self>,
        launched: Launched,
        report: pipe::Receiver,
        streamed: bool,
    ) -> Result<StartedCommand, Kind> {
        let starting = Starting::new(self, launched.spec.id.clone(), Some(&launched.spawned));
        let task = tokio::spawn(async move {
            let program = launched.spec.argv.first().cloned().unwrap_or_default();
            read_only::has_become(report, launched.spawned.pid, &program).await?;
            Ok(starting.commands.take_in(launched, streamed))
        });
        task.await.unwrap_or_else(|_| Err(invalid("program", "could not be followed".into())))
    }

    fn take_in(self: &Arc<Self>, launched: Launched, streamed: bool) -> StartedCommand {
        let Launched { spec, spawned, status, input, oom_kills_before } = launched;
        let own_reader = streamed && !spec.detached;
        let (to_feed, to_keep) = match (input.stays_open, spawned.stdin) {
            (true, pipe) => (None, pipe),
            (false, pipe) => (pipe, None),
        };
        let (command, requests) =
            Command::new(spec, spawned.pid, spawned.mark, Stdin::new(to_keep), Arc::clone(&self.budget));
        let place = own_reader.then(|| Place::first(&command));
        self.lock().by_id.insert(command.spec.id.clone(), Arc::clone(&command));
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
        StartedCommand { command, place }
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

    /// Takes note of an end, and drops the oldest ended commands where there are too many, but none whose
    /// reader is not through.
    fn retire(&self, command: &Arc<Command>) {
        command.may_be_forgotten_in_need();
        let mut kept = self.lock();
        kept.ended.push_back(command.spec.id.clone());
        let mut at = 0;
        while kept.ended.len() > MAX_ENDED_COMMANDS && at < kept.ended.len() {
            let oldest = kept.ended.get(at).and_then(|id| kept.by_id.get(id)).cloned();
            match oldest {
                Some(command) if command.may_be_forgotten() => {
                    command.forget_output();
                    kept.ended.remove(at);
                    kept.by_id.remove(&command.spec.id);
                }
                _ => at += 1,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running for Commands {
    fn targets(&self) -> Vec<Arc<dyn ladder::Target + Send + Sync>> {
        let kept = self.lock();
        let running = kept.by_id.values().filter(|command| command.end_now().is_none());
        let running = running.map(|command| Arc::clone(command) as Arc<dyn ladder::Target + Send + Sync>);
        let begun = kept.starting.values().flatten();
        running.chain(begun.map(|begun| Arc::clone(begun) as Arc<dyn ladder::Target + Send + Sync>)).collect()
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
