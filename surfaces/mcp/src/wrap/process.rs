//! The command of a server.
//!
//! The command ends with its stream: when the server was idle for too long, when it must be ended, and when this
//! process or its connection to the daemon ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sandbox_api::command::{EndReason, Record, StartCommand};
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::{Client, Records};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::lines::Lines;
use super::link::{Link, Outgoing};
use super::listener::Allowed;
use super::outcome::How;

/// How long a server runs without a call, if its sandbox is not parked before.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// A call that takes longer keeps the sandbox in use until its answer. A shorter one has just used it.
const LONG_CALL: Duration = Duration::from_millis(200);

/// How long one request keeps the sandbox in use.
const HOLD: Duration = Duration::from_secs(30);

/// Maximum number of bytes of standard error that are kept for error messages: the last ones.
const MAX_STDERR_BYTES: usize = 2048;

/// Maximum number of bytes that are written to standard input at once, unless a single message is longer.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// Interval between checks whether a server is still registered.
const CHECK: Duration = Duration::from_secs(5);

/// Time within which the daemon must report that the command runs.
const START: Duration = Duration::from_secs(60);

/// How a server is started.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Sandbox in which it runs.
    pub(crate) sandbox: SandboxId,
    /// Program.
    pub(crate) cmd: String,
    /// Arguments of the program.
    pub(crate) args: Vec<String>,
    /// Working directory. The workspace if it is absent.
    pub(crate) cwd: Option<String>,
    /// Environment variables besides those of the sandbox. They are secret.
    pub(crate) env: BTreeMap<String, String>,
    /// Requests to the host that it may make.
    pub(crate) allowed: Allowed,
    /// Its registration with the daemon, if it has one. It ends with it.
    pub(crate) registered: Option<Registered>,
}

impl fmt::Debug for Launch {
    /// Without the environment and the arguments, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sandbox, cmd, allowed, registered, .. } = self;
        let mut launch = f.debug_struct("Launch");
        launch.field("sandbox", sandbox).field("cmd", cmd).field("allowed", allowed);
        launch.field("registered", registered).finish_non_exhaustive()
    }
}

/// Identifies a registration. A name that is registered again is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) sandbox: SandboxId,
    pub(crate) name: String,
    /// Time of the registration, in nanoseconds since the Unix epoch.
    pub(crate) created_at: i128,
}

/// A server that was started.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) link: Arc<Link>,
    /// Time limit of the command.
    pub(super) limit: Duration,
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The daemon has rejected the command, or cannot be reached.
    #[error("{0}")]
    Client(#[from] sandbox_client::Error),
    /// The daemon has not reported the start.
    #[error("its command did not start")]
    NotStarted,
}

/// Starts a server.
pub(super) async fn start(client: &Client, launch: &Launch, id: CommandId) -> Result<Started, StartError> {
    let request = StartCommand {
        cmd: Some(launch.cmd.clone()),
        args: Some(launch.args.clone()),
        cwd: launch.cwd.clone(),
        env: (!launch.env.is_empty()).then(|| launch.env.clone().into_iter().collect()),
        open_stdin: Some(true),
        // So the sandbox is parked as if the server did not run.
        passive: Some(true),
        command_id: Some(id.to_string()),
        ..StartCommand::default()
    };
    let mut records = client.run(&launch.sandbox, &request).await?;
    let first = timeout(START, records.next()).await.map_err(|_| StartError::NotStarted)?;
    let Record::Start { timeout_ms, .. } = first.ok_or(StartError::NotStarted)?? else {
        return Err(StartError::NotStarted);
    };
    let (link, messages) = Link::new(launch.allowed);
    let of = (client.clone(), launch.sandbox.clone(), id);
    let in_use_guard = AbortOnDropHandle::new(tokio::spawn(keep_in_use(of.clone(), Arc::clone(&link))));
    let writer = AbortOnDropHandle::new(tokio::spawn(write(of, Arc::clone(&link), messages)));
    let checker = launch.registered.clone().map(|registered| {
        AbortOnDropHandle::new(tokio::spawn(end_if_removed(client.clone(), registered, Arc::clone(&link))))
    });
    let pump = Pump { link: Arc::clone(&link), records, lines: Lines::default(), stderr: String::new() };
    tokio::spawn(pump.run(writer, (in_use_guard, checker)));
    Ok(Started { link, limit: Duration::from_millis(timeout_ms) })
}

/// The command of a server, and the client for it.
type OfCommand = (Client, SandboxId, CommandId);

/// Keeps the sandbox in use while a call takes long. A wait for the command is such a use.
async fn keep_in_use((client, sandbox, command): OfCommand, link: Arc<Link>) {
    loop {
        link.busy().await;
        sleep(LONG_CALL).await;
        while !link.is_idle() {
            tokio::select! {
                waited = client.wait(&sandbox, &command, Some(HOLD)) => match waited {
                    // The command has ended, and the call with it.
                    Ok(_) => return,
                    Err(_) => sleep(LONG_CALL).await,
                },
                () = link.idle() => {}
            }
        }
    }
}

/// Ends a server whose registration was removed. Neither wakes a sandbox nor counts as use.
async fn end_if_removed(client: Client, registered: Registered, link: Arc<Link>) {
    let Registered { sandbox, name, created_at } = registered;
    loop {
        sleep(CHECK).await;
        let is_removed = match client.mcp_server(&sandbox, &name).await {
            Ok(found) => found.created_at.as_nanosecond() != created_at,
            // Any other error says nothing about the registration.
            Err(error) => error.code() == Some(ErrorCode::NotFound),
        };
        if is_removed {
            return link.stop();
        }
    }
}

/// Writes messages to standard input, in order.
async fn write(
    (client, sandbox, command): OfCommand,
    link: Arc<Link>,
    mut messages: mpsc::Receiver<Outgoing>,
) {
    loop {
        let next = tokio::select! {
            biased;
            next = messages.recv() => next,
            () = link.stopped() => return end_rest(&link, messages, Vec::new()),
        };
        let Some(Outgoing { request, line }) = next else { return };
        let (mut requests, mut lines) = (Vec::from_iter(request), line);
        while lines.len() < MAX_WRITE_BYTES
            && let Ok(next) = messages.try_recv()
        {
            requests.extend(next.request);
            lines.extend(next.line);
        }
        match client.write_stdin(&sandbox, &command, lines, false).await {
            Ok(_) => {}
            // The sandbox was parked just before, and has another container now.
            Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                link.close(How::Parked);
                return end_rest(&link, messages, requests);
            }
            Err(error) => {
                link.close_input();
                if has_written_nothing(&error) {
                    end_rest(&link, messages, requests);
                }
                return;
            }
        }
    }
}

/// Whether the command had ended before it got anything. It may have ended with its container.
fn has_written_nothing(error: &sandbox_client::Error) -> bool {
    error.code() == Some(ErrorCode::WrongState)
        && error.body().and_then(|body| body.details.get("writtenBytes")).is_some_and(|bytes| bytes == 0)
}

/// Ends the requests that were not written.
fn end_rest(link: &Link, mut messages: mpsc::Receiver<Outgoing>, mut requests: Vec<u64>) {
    messages.close();
    while let Ok(rest) = messages.try_recv() {
        requests.extend(rest.request);
    }
    link.end_undelivered(&requests);
}

/// Tasks that run as long as the server: one keeps its sandbox in use, one checks its registration.
type Others = (AbortOnDropHandle<()>, Option<AbortOnDropHandle<()>>);

/// Reads the output of a server.
struct Pump {
    link: Arc<Link>,
    records: Records,
    lines: Lines,
    /// The end of standard error.
    stderr: String,
}

impl Pump {
    /// Reads until the server ends or must end. Dropping the records ends the command.
    async fn run(mut self, mut writer: AbortOnDropHandle<()>, _others: Others) {
        let how = loop {
            let left = IDLE.saturating_sub(self.link.idle_for());
            tokio::select! {
                biased;
                // Ends the writer too.
                () = self.link.stopped() => break How::Stopped,
                _ = &mut writer => break self.rest().await,
                () = sleep(left) => if self.link.end_if_idle(IDLE) {
                    break How::Stopped;
                },
                record = self.records.next() => if let Some(how) = self.take(record) {
                    break how;
                },
            }
        };
        if how == How::Parked && !writer.is_finished() {
            // A write that has just begun reports whether the server received it.
            self.link.close(How::Parked);
            let _ = timeout(START, &mut writer).await;
        }
        self.link.end(how, self.stderr);
    }

    /// Standard input is closed, usually because the server is about to end. Reads how.
    async fn rest(&mut self) -> How {
        let read = async {
            loop {
                let record = self.records.next().await;
                if let Some(how) = self.take(record) {
                    return how;
                }
            }
        };
        let closed = || How::Failed("it does not read its standard input".into());
        timeout(Duration::from_secs(2), read).await.unwrap_or_else(|_| closed())
    }

    /// Takes a record. Returns why the server has ended, or must.
    fn take(&mut self, record: Option<Result<Record, sandbox_client::Error>>) -> Option<How> {
        match record {
            Some(Ok(Record::Stdout(output))) => self.read(output.data.as_bytes()),
            Some(Ok(Record::Stderr(output))) => {
                keep_end(&mut self.stderr, &output.data);
                None
            }
            Some(Ok(Record::Gap { .. })) => Some(How::Failed("a part of its output was lost".into())),
            Some(Ok(Record::Exit { exit_code, reason, .. })) => Some(match reason {
                EndReason::Timeout => How::TimeLimit,
                EndReason::Oom => How::Failed("it ran out of memory".into()),
                EndReason::Lost => How::Parked,
                EndReason::Exited | EndReason::Killed => {
                    How::Failed(format!("it ended with exit code {exit_code}"))
                }
            }),
            Some(Ok(_)) => None,
            Some(Err(error)) if error.is_temporary() => Some(How::Disconnected),
            Some(Err(error)) => Some(How::Failed(error.to_string())),
            None => Some(How::Failed("its output ended".into())),
        }
    }

    fn read(&mut self, output: &[u8]) -> Option<How> {
        let (link, mut problem) = (&self.link, None);
        let read = self.lines.push(output, |line| {
            if problem.is_none() {
                problem = link.receive(line).err();
            }
        });
        read.map_err(|error| error.to_string()).err().or(problem).map(How::Failed)
    }
}

/// Appends text and keeps the end.
fn keep_end(kept: &mut String, text: &str) {
    kept.push_str(text);
    let excess = kept.len().saturating_sub(MAX_STDERR_BYTES);
    let cut = (excess..=kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(kept.len());
    kept.drain(..cut);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_standard_error_is_kept() {
        let mut kept = String::new();
        keep_end(&mut kept, "ab");
        assert_eq!(kept, "ab");
        keep_end(&mut kept, &"é".repeat(MAX_STDERR_BYTES));
        assert!(kept.len() <= MAX_STDERR_BYTES && kept.starts_with('é'));
    }
}
