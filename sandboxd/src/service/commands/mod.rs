//! Commands in a sandbox: starting, streaming, waiting for and ending them.
//!
//! A command id that the caller chose makes a start idempotent. The same id with the same request is the same command,
//! even after its container is gone. If an agent does not end a command in time, the container is restarted.

mod batch;
mod feed;
mod feed_sweep;
mod overdue;
mod run;
mod stdin;
mod stream;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};
use tokio::time::timeout;
use tracing::warn;

pub use self::batch::{BatchOrder, CommandOutput, CommandResult};
use self::feed::Feeds;
pub use self::stream::CommandStream;
use super::history::{History, status_of};
use super::lifecycle::{InUse, InUseMark, Lifecycle, Sandbox};
use super::quotas::{Charge, Quotas};
use super::snapshots::Snapshots;
use super::tasks::Tasks;
use super::{Context, Error};
use crate::agent::{self, AgentHandle};
use crate::metrics::Metrics;
use crate::model::command::{CommandStatus, Killed, Started};
use crate::model::context::ContextEntry;
use crate::model::{CommandRecord, CommandRefusal, CommandSpec, Ended, Refusal, Resource, limits};
use crate::service::{Authorized, Recorded};
use crate::store::Store;

/// SIGTERM of signal(7).
const TERM: i32 = 15;

/// Starts, follows and ends commands.
#[derive(Debug)]
pub struct Commands {
    lifecycle: Arc<Lifecycle>,
    history: Arc<History>,
    snapshots: Arc<Snapshots>,
    quotas: Arc<Quotas>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
    feeds: Feeds,
}

impl Commands {
    pub(in crate::service) fn new(
        context: &Context,
        lifecycle: &Arc<Lifecycle>,
        history: &Arc<History>,
        snapshots: &Arc<Snapshots>,
        quotas: &Arc<Quotas>,
    ) -> Self {
        Self {
            lifecycle: Arc::clone(lifecycle),
            history: Arc::clone(history),
            snapshots: Arc::clone(snapshots),
            quotas: Arc::clone(quotas),
            store: Arc::clone(&context.store),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
            feeds: Feeds::default(),
        }
    }

    /// Starts a command. Returns when it runs, or at once if a command with this id ran before.
    pub async fn start(self: &Arc<Self>, id: &Recorded, spec: CommandSpec) -> Result<Started, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let known = self.find_known(&in_use, &spec).await?;
        if let Some(Known::Gone(status)) = known {
            return Ok(status.started);
        }
        let charge = self.charge_unless_known(&in_use, known.as_ref())?;
        let spec = with_env(spec, in_use.sandbox());
        let started = match in_use.agent().start(&spec).await {
            // A retry is safe, because the agent starts no command with the same id twice.
            Err(error) if error.is_broken() => in_use.agent().start(&spec).await,
            other => other,
        };
        let started = in_use.count_if_accepted(started)?;
        if let Some(charge) = charge {
            self.note_start(in_use.sandbox(), &spec, started);
            let mark = InUseMark::command(in_use.sandbox().activity(), spec.passive).holding(charge);
            self.watch(in_use.sandbox(), in_use.agent(), &spec.id, mark);
        }
        Ok(started)
    }

    /// Charges the sandbox's project for a command that is about to be started. `None` for one that was started before.
    fn charge_unless_known(&self, in_use: &InUse, known: Option<&Known>) -> Result<Option<Charge>, Error> {
        let charge = known.is_none().then(|| self.quotas.command(&in_use.sandbox().owner().project));
        let charge = charge.transpose();
        if charge.is_err() {
            in_use.do_not_count();
        }
        charge
    }

    /// Records that a command has started.
    fn note_start(self: &Arc<Self>, sandbox: &Arc<Sandbox>, spec: &CommandSpec, started: Started) {
        self.quotas.count_command(&sandbox.owner().project);
        self.history.note_start(sandbox.ledger(), spec, started);
        self.snapshots.note_start(sandbox, spec);
    }

    /// Records how a command has ended.
    fn note_end(self: &Arc<Self>, sandbox: &Arc<Sandbox>, command: &CommandId, ended: Ended) {
        self.history.note_end(sandbox.ledger(), command, ended);
        self.snapshots.note_end(sandbox, command);
    }

    /// Finds an earlier command with the id that the caller chose. Such a command is not started again. A command that
    /// is not written to the store yet is still known to the agent. The reason is that a sandbox's history is written
    /// before its container is removed.
    async fn find_known(&self, in_use: &InUse, spec: &CommandSpec) -> Result<Option<Known>, Error> {
        let Some(digest) = spec.digest else {
            return Ok(None);
        };
        let Some(record) = self.store.written_command(in_use.sandbox().id(), &spec.id).await? else {
            return Ok(None);
        };
        if record.digest.is_some_and(|recorded| recorded != digest) {
            return Err(Refusal::from(CommandRefusal::Differs).into());
        }
        match in_use.agent().inspect(&spec.id).await {
            Err(agent::Error::Refused(Refusal::NotFound(Resource::Command))) => {
                Ok(Some(Known::Gone(Box::new(status_of(record)))))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(Some(Known::StillRunning)),
        }
    }

    /// Waits for a command's end, at most for `limit`.
    pub async fn wait(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
        limit: Option<Duration>,
    ) -> Result<Ended, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let _permit = in_use.sandbox().reader()?;
        // A delete must not wait for this caller.
        let (sandbox, agent, _mark) = in_use.unlock();
        let wait = self.wait_or_look_up(&sandbox, &agent, command);
        match limit {
            None => wait.await,
            Some(limit) => match timeout(limit, wait).await {
                Ok(waited) => waited,
                // A short limit may expire before the agent has responded, although the command ended long ago.
                Err(_) => match timeout(limits::WAIT_LOOK_UP, self.status(&sandbox, &agent, command)).await {
                    Ok(Ok(CommandStatus { ended: Some(ended), .. })) => Ok(ended),
                    Ok(Err(error @ Error::Refused(Refusal::NotFound(_)))) => Err(error),
                    _ => Err(Error::WaitDeadline { timeout_ms: limit.as_millis() as u64 }),
                },
            },
        }
    }

    /// Waits for a command's end. If the agent no longer knows the command, its end is in the history.
    async fn wait_or_look_up(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        agent: &AgentHandle,
        command: &CommandId,
    ) -> Result<Ended, Error> {
        match self.wait_across_reconnects(sandbox, agent, command).await {
            Err(error @ Error::Refused(Refusal::NotFound(_))) => {
                let recorded = self.history.recorded(sandbox.ledger(), command).await?;
                recorded.and_then(|status| status.ended).ok_or(error)
            }
            other => other,
        }
    }

    pub(super) async fn wait_across_reconnects(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        agent: &AgentHandle,
        command: &CommandId,
    ) -> Result<Ended, Error> {
        let mut waited_before = false;
        loop {
            match agent.wait(command).await {
                Ok(ended) => {
                    self.snapshots.note_end(sandbox, command);
                    return Ok(self.history.confirm_oom(sandbox.ledger(), agent, command, ended).await);
                }
                Err(error) if error.is_broken() => {
                    if self.lifecycle.is_gone(sandbox, agent).await {
                        return Ok(self.history.end_of_lost(sandbox.ledger(), command).await);
                    }
                    waited_before = true;
                }
                Err(agent::Error::Refused(Refusal::NotFound(Resource::Command))) if waited_before => {
                    return Ok(self.history.end_of_lost(sandbox.ledger(), command).await);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the newest commands of a sandbox in any state.
    pub async fn list(&self, id: &Authorized<SandboxId>, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        self.lifecycle.find(id)?;
        Ok(self.store.commands(id, limit).await?)
    }

    /// Returns up to `limit` commands, runs and calls of tools of a sandbox that have ended, with their numbers, the last first. With
    /// `before`, those before this number.
    pub async fn history(
        &self,
        id: &Authorized<SandboxId>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<(u64, CommandRecord, Option<ContextEntry>)>, Error> {
        self.lifecycle.find(id)?;
        let ended = self.store.ended_commands(id, before, limit).await?;
        Ok(ended.into_iter().map(|ended| (ended.number, ended.command, ended.in_context)).collect())
    }

    /// Returns the state of a command.
    pub async fn inspect(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
    ) -> Result<CommandStatus, Error> {
        let (sandbox, agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        self.status(&sandbox, &agent, command).await
    }

    async fn status(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        command: &CommandId,
    ) -> Result<CommandStatus, Error> {
        match agent.inspect(command).await {
            Err(agent::Error::Refused(Refusal::NotFound(Resource::Command))) => {
                let recorded = self.history.recorded(sandbox.ledger(), command).await?;
                recorded.ok_or(Refusal::NotFound(Resource::Command).into())
            }
            other => Ok(self.history.confirm_oom_in_status(sandbox.ledger(), other?).await),
        }
    }

    /// Ends a command and returns when none of its processes is left.
    pub async fn kill(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
    ) -> Result<Killed, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let (sandbox, agent, _mark) = in_use.unlock();
        self.end_command(&sandbox, &agent, command).await
    }

    /// Sends a command one signal. Returns true if it had already ended.
    pub async fn signal(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        command: &CommandId,
        signal: i32,
    ) -> Result<bool, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().signal(command, signal).await?)
    }

    /// Ends a command with the agent's sequence of signals. If the agent does not report the end, restarts the container.
    pub(super) async fn end_command(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        agent: &AgentHandle,
        command: &CommandId,
    ) -> Result<Killed, Error> {
        self.end_within(sandbox, agent, command, limits::KILL, EndReason::Killed).await
    }

    /// Like [`Self::end_command`], with the time that the agent has for it, and the reason of the end after a restart.
    pub(super) async fn end_within(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        agent: &AgentHandle,
        command: &CommandId,
        limit: Duration,
        reason: EndReason,
    ) -> Result<Killed, Error> {
        let restarts = sandbox.ledger().restarts();
        match agent.end(command, TERM, limit).await {
            Err(agent::Error::Deadline { after }) => {
                warn!(sandbox = %sandbox.id(), %command, ?after, "a command did not end; restarting its container");
                self.lifecycle.restart(sandbox, restarts, Some((command, reason))).await?;
                Ok(Killed { already_ended: false, restarted: true })
            }
            other => Ok(Killed { already_ended: other?, restarted: false }),
        }
    }
}

/// An earlier command.
enum Known {
    /// The agent knows it, running or ended.
    StillRunning,
    /// Only the store knows it: it ran in another container, or long ago.
    Gone(Box<CommandStatus>),
}

/// Adds the sandbox's environment to a command, and its secrets. The command's own variables take precedence, and their
/// values are secret under the same names.
fn with_env(mut spec: CommandSpec, sandbox: &Sandbox) -> CommandSpec {
    sandbox.with_spec(|spec_of_sandbox| {
        spec.secrets = spec_of_sandbox.secrets_beside(&spec.env);
        for (name, value) in &spec_of_sandbox.env {
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    });
    spec
}
