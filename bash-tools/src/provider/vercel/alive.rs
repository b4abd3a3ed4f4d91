//! A command that runs, which is ended with everything it started.
//!
//! Vercel ends only a single process. Each command therefore has a mark in its environment, which its children
//! inherit. Every process with the mark is ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::api::Api;
use super::call::{Call, START, path};
use super::fault::Fault;
use super::lines::Lines;
use super::wire::{Kill, StartCommand};

/// Variable for the mark in the environment of a command and its children.
pub(super) const MARK: &str = "BASH_TOOLS_COMMAND";

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

/// SIGKILL.
const KILL: u8 = 9;

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
    /// Starts a command in a session, and reads its first line. The request's environment must have the `mark`.
    pub(super) async fn begin(
        api: Arc<Api>,
        session: Arc<str>,
        mark: String,
        request: StartCommand,
    ) -> Result<(Self, Lines), Fault> {
        let mut alive = Self { api, session, id: String::new(), mark, is_over: false };
        let call = Call::post(path(&["sessions", &alive.session, "cmd"])).json(&request).within(START);
        let response = match alive.api.send(&call).await {
            Ok(response) => response,
            Err(fault) => {
                alive.is_over = !fault.is_uncertain();
                return Err(fault);
            }
        };
        let mut lines = Lines::of(response);
        let first = timeout(START, lines.command()).await;
        alive.id = first.unwrap_or(Err(Fault::Deadline { after: START }))?.id;
        Ok((alive, lines))
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
