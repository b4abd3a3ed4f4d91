//! Starts a command, and ends it with everything it started.
//!
//! Vercel ends only a single process. Each command therefore has a mark in its environment, which its children
//! inherit. Every process with the mark is ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use uuid::Uuid;

use super::Vercel;
use super::api::Api;
use super::call::{Call, START, path};
use super::fault::Fault;
use super::lines::Lines;
use super::listen::Listener;
use super::wire::{Kill, StartCommand, millis};
use crate::provider::{Command, Error, Result as Answer, Running, SandboxId, WORKSPACE};

/// Variable for the mark in the environment of a command and its children.
const MARK: &str = "BASH_TOOLS_COMMAND";

/// Ends all processes with the mark, until none is found several times in a row. A process that is just starting has
/// no environment for a moment.
const SWEEP: &str = "empty=0\n\
    for round in {1..50}; do\n\
    found=$(grep -lsz -- \"^$1=$2\\$\" /proc/[0-9]*/environ)\n\
    for file in $found; do empty=-1; pid=${file#/proc/}; kill -KILL \"${pid%/environ}\"; done\n\
    empty=$((empty + 1))\n\
    [ $empty -lt 4 ] || exit 0\n\
    sleep 0.1\n\
    done 2>/dev/null";

/// Deadline of a sweep.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a script.
const MAX_SCRIPT_BYTES: usize = 1024 * 1024;

/// Maximum length of a piece of a script. Linux allows no argument of 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 96 * 1024;

/// Runs a script that arrives in pieces, and hides the pieces from it.
const JOIN: &str = "eval \"set --\n$(printf %s \"$@\")\"";

/// Extra time before Vercel ends a command. It only has to do so if this side cannot.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

/// SIGKILL.
const KILL: u8 = 9;

impl Vercel {
    /// Runs in its own task. The caller may leave before the id of the command is known, and the command must be
    /// ended all the same.
    pub(super) async fn run_script(&self, sandbox: &SandboxId, command: Command) -> Answer<Running> {
        if command.script.len() > MAX_SCRIPT_BYTES {
            let said = format!("a command must be at most {MAX_SCRIPT_BYTES} bytes long");
            return Err(Error::Refused { said });
        }
        if command.script.contains('\0') {
            return Err(Error::Refused { said: "a command must not have NUL characters".to_owned() });
        }
        let (vercel, sandbox) = (self.clone(), sandbox.clone());
        let starting = tokio::spawn(async move { vercel.start(&sandbox, &command).await });
        let listener = starting.await.map_err(|error| Error::Broken(error.into()))??;
        Ok(Running::new(listener.events()))
    }

    async fn start(&self, sandbox: &SandboxId, command: &Command) -> Result<Listener, Fault> {
        self.in_session(sandbox, |session| {
            let mark = Uuid::new_v4().simple().to_string();
            let request = StartCommand::of(command, &mark);
            let alive =
                Alive { api: Arc::clone(&self.api), session, id: String::new(), mark, is_over: false };
            alive.begin(request, command.timeout)
        })
        .await
    }
}

/// A command that runs or may run. Dropping it ends the command, unless it is over.
#[derive(Debug)]
pub(super) struct Alive {
    pub(super) api: Arc<Api>,
    session: Arc<str>,
    /// Empty until known.
    id: String,
    mark: String,
    pub(super) is_over: bool,
}

impl Alive {
    async fn begin(mut self, request: StartCommand, limit: Duration) -> Result<Listener, Fault> {
        let call = Call::post(path(&["sessions", &self.session, "cmd"])).json(&request).within(START);
        let response = match self.api.send(&call).await {
            Ok(response) => response,
            Err(fault) => {
                self.is_over = !fault.is_uncertain();
                return Err(fault);
            }
        };
        let mut lines = Lines::of(response);
        let first = timeout(START, lines.command()).await;
        self.id = first.unwrap_or(Err(Fault::Deadline { after: START }))?.id;
        Ok(Listener::new(self, lines, limit))
    }

    /// Path of the command.
    pub(super) fn path(&self) -> String {
        path(&["sessions", &self.session, "cmd", &self.id])
    }

    /// Ends the command and everything it started, without waiting for the result.
    pub(super) fn end(&mut self) {
        // Without a runtime the program is about to exit. Vercel then ends the command at its time limit.
        let Ok(runtime) = Handle::try_current() else { return };
        self.is_over = true;
        let (api, session) = (Arc::clone(&self.api), Arc::clone(&self.session));
        let (id, mark) = (self.id.clone(), self.mark.clone());
        runtime.spawn(async move { end(&api, &session, &id, &mark).await });
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}

/// Both run concurrently, because possibly only one of them works.
async fn end(api: &Api, session: &str, id: &str, mark: &str) {
    let kill = async {
        let kill = Call::post(path(&["sessions", session, "cmd", id, "kill"])).json(&Kill { signal: KILL });
        if id.is_empty() { Ok(()) } else { api.done(&kill).await }
    };
    let arguments = ["-c", SWEEP, "sweep", MARK, mark].map(str::to_owned).to_vec();
    // Runs as root, because the command may run as root.
    let sweep = StartCommand { sudo: true, ..StartCommand::bash(arguments, "/", SWEEP_TIMEOUT) };
    let sweep = Call::post(path(&["sessions", session, "cmd"])).json(&sweep);
    let (killed, swept) = tokio::join!(kill, api.done(&sweep));
    warn(id, killed);
    warn(id, swept);
}

/// A command that could not be ended ends at its time limit. A missing session or command needs no action.
fn warn(id: &str, ended: Result<(), Fault>) {
    if let Err(fault) = ended
        && !fault.is_not_found()
        && !fault.is_of_stopped_session()
    {
        tracing::warn!(command = id, %fault, "a command could not be ended");
    }
}

impl StartCommand {
    /// A command whose end is not awaited.
    pub(super) fn bash(args: Vec<String>, cwd: &'static str, timeout: Duration) -> Self {
        Self {
            command: "bash",
            args,
            cwd,
            env: BTreeMap::new(),
            sudo: false,
            timeout: millis(timeout),
            wait: false,
            logs: false,
        }
    }

    fn of(command: &Command, mark: &str) -> Self {
        let mut args = vec!["-lc".to_owned()];
        if command.script.len() <= MAX_ARGUMENT_BYTES {
            args.push(command.script.clone());
        } else {
            args.extend([JOIN.to_owned(), "bash".to_owned()]);
            args.extend(pieces(&command.script).map(str::to_owned));
        }
        let own = command.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            env: own.chain([(MARK.to_owned(), mark.to_owned())]).collect(),
            wait: true,
            logs: true,
            ..Self::bash(args, WORKSPACE, command.timeout + TIMEOUT_SLACK)
        }
    }
}

/// Splits the script into pieces that fit into arguments.
fn pieces(mut script: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = script.split_at(script.floor_char_boundary(MAX_ARGUMENT_BYTES));
        script = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_script() {
        let script = "é🦀x".repeat(100_000);
        let all: Vec<&str> = pieces(&script).collect();
        assert_eq!(all.concat(), script);
        assert!(all.iter().all(|piece| piece.len() <= MAX_ARGUMENT_BYTES));
        assert_eq!(all.len(), script.len().div_ceil(MAX_ARGUMENT_BYTES));
    }
}
