//! All commands of the sandbox, running and ended.
//!
//! Owns admission (ids, limits) and retention. The same id is the same command for as long as it is kept,
//! so a caller that did not hear the answer may ask again. Needs no lock across a start: starting does not
//! await.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, start_request::Program};
use rustix::process::{Resource, getrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::capture::Capture;
use crate::command::{Command, LogBudget, Place, Spec};
use crate::limits::{
    MAX_ENDED_COMMANDS, MAX_ID_BYTES, MAX_RUNNING_COMMANDS, MAX_SCRIPT_BYTES, MAX_STDIN_BYTES,
};
use crate::oom;
use crate::reaper::Reaper;
use crate::spawn::{self, Launch};
use crate::supervisor::Supervisor;

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<String, Arc<Command>>,
    /// Ids in the order their commands ended.
    ended: VecDeque<String>,
}

/// The commands of this sandbox.
#[derive(Debug)]
pub(crate) struct Commands {
    workspace: PathBuf,
    reaper: Arc<Reaper>,
    budget: Arc<LogBudget>,
    kept: Mutex<Kept>,
}

/// A command and, for the caller whose request started it, the place of its own reader.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) command: Arc<Command>,
    pub(crate) place: Option<Place>,
}

impl Commands {
    pub(crate) fn new(workspace: PathBuf, reaper: Arc<Reaper>) -> Arc<Self> {
        Arc::new(Self { workspace, reaper, budget: Arc::default(), kept: Mutex::default() })
    }

    /// The command with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Command>, Kind> {
        let found = self.lock().by_id.get(id).cloned();
        found.ok_or_else(|| Kind::CommandUnknown(v1::CommandUnknown { command_id: id.into() }))
    }

    pub(crate) fn running(&self) -> usize {
        let kept = self.lock();
        kept.by_id.len() - kept.ended.len()
    }

    /// Starts a command, or finds the one that has this id. With `streamed` the caller is the command's
    /// own reader.
    pub(crate) fn start(
        self: &Arc<Self>,
        request: v1::StartRequest,
        streamed: bool,
    ) -> Result<StartedCommand, Kind> {
        check_id("command_id", &request.command_id)?;
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
        self.launch(spec, &request.env, request.stdin, streamed)
    }

    fn launch(
        self: &Arc<Self>,
        spec: Spec,
        env: &HashMap<String, String>,
        stdin: Option<bytes::Bytes>,
        streamed: bool,
    ) -> Result<StartedCommand, Kind> {
        let spawned = spawn::spawn(&Launch {
            command_id: &spec.id,
            argv: &spec.argv,
            cwd: &spec.cwd,
            env,
            with_stdin: stdin.is_some(),
        })
        .map_err(refusal_of)?;
        let status = self.reaper.expect(spawned.pid);
        // Asked after the fork, while the command loads on another processor.
        let oom_kills_before = oom::kills_so_far();

        let own_reader = streamed && !spec.detached;
        let (command, requests) = Command::new(spec, spawned.pid, Arc::clone(&self.budget));
        let place = own_reader.then(|| Place::first(&command));
        self.lock().by_id.insert(command.spec.id.clone(), Arc::clone(&command));
        if let (Some(pipe), Some(data)) = (spawned.stdin, stdin) {
            tokio::spawn(feed(pipe, data));
        }
        let supervisor = Supervisor { command: Arc::clone(&command), status, requests, oom_kills_before };
        let capture = Capture::new(spawned.stdout, spawned.stderr);
        let commands = Arc::clone(self);
        let ending = Arc::clone(&command);
        tokio::spawn(async move {
            supervisor.run(capture).await;
            commands.retire(&ending);
        });
        Ok(StartedCommand { command, place })
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

/// A process too many is a limit that is reached, and passes; anything else is the command's own fault.
pub(crate) fn refusal_of(fault: v1::StartFailed) -> Kind {
    if fault.step != "fork" {
        return Kind::StartFailed(fault);
    }
    let value = getrlimit(Resource::Nproc).current.unwrap_or(0);
    Kind::LimitReached(v1::LimitReached { limit: "processes".into(), value })
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
