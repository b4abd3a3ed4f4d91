//! Records the commands that only their agent knows of.
//!
//! History is written behind the commands, so a daemon that is killed loses the newest entries. The agent remembers at
//! least as many commands as can be lost that way. They are recorded when a sandbox is restored, and before its
//! container, and so its agent, goes. Otherwise the same command id could run twice.

use std::collections::HashMap;
use std::sync::Arc;

use sandbox_api::CommandId;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::activity::now_ms;
use super::order::{Running, State};
use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::{self, AgentHandle, KnownCommand};
use crate::model::layout::WORKSPACE;
use crate::model::{CommandRecord, limits};
use crate::store::Written;

impl Service {
    /// Records what a restored sandbox's agent knows once it is connected, and watches what runs. Does not wait.
    pub(super) fn record_restored(self: &Arc<Self>, sandbox: &Arc<Sandbox>, agent: &AgentHandle) {
        let (service, sandbox, agent) = (Arc::clone(self), Arc::clone(sandbox), agent.clone());
        let restored_at_ms = now_ms();
        // Not among the tasks that a stop waits for: the next daemon does it again.
        tokio::spawn(async move {
            let record = async {
                agent.connected(limits::AGENT_FIRST_ANSWER).await?;
                service.record_unrecorded(&sandbox, &agent).await
            };
            let recorded = tokio::select! {
                () = service.watching.cancelled() => return,
                recorded = record => recorded,
            };
            match recorded {
                Ok(()) => service.watch_of_before(&sandbox, restored_at_ms).await,
                Err(error) => {
                    debug!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not list a restored sandbox's commands yet");
                }
            }
        });
    }

    /// Records what the agents know if history was dropped since this was last called.
    pub(super) async fn record_dropped(self: &Arc<Self>) {
        if !self.store.history().was_dropped() {
            return;
        }
        for sandbox in self.registry.all() {
            sandbox.set_unrecorded(true);
            let agent = match sandbox.order.try_shared().as_deref() {
                Some(State::Running(Running { agent, .. })) => agent.clone(),
                _ => continue,
            };
            self.record_if_possible(&sandbox, &agent).await;
        }
    }

    /// Does as [`Self::record_unrecorded`], for those who go on if it fails.
    pub(super) async fn record_if_possible(&self, sandbox: &Sandbox, agent: &AgentHandle) {
        if let Err(error) = self.record_unrecorded(sandbox, agent).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not record which commands ran");
        }
    }

    /// Records the commands that the store may lack, if it may lack any.
    pub(super) async fn record_unrecorded(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
    ) -> Result<(), Error> {
        if !sandbox.is_unrecorded() {
            return Ok(());
        }
        agent.connected(limits::AGENT_ABSENCE).await?;
        let late = |_| agent::Error::Deadline { after: limits::RECORD_COMMANDS };
        timeout(limits::RECORD_COMMANDS, self.record_all(sandbox, agent)).await.map_err(late)??;
        sandbox.set_unrecorded(false);
        Ok(())
    }

    async fn record_all(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        let (mut after, mut recorded) = (0, Vec::new());
        for _ in 0..limits::MAX_COMMAND_PAGES {
            let page = match agent.unrecorded_commands(recorded, after).await {
                // It has no such list.
                Err(agent::Error::Outdated) => return Ok(()),
                page => page?,
            };
            recorded = self.record_page(sandbox, agent, &page.commands).await?;
            match page.commands.last() {
                Some(last) if page.more => after = last.number,
                _ => break,
            }
        }
        // There is nothing after the last number.
        Ok(agent.unrecorded_commands(recorded, u64::MAX).await.map(drop)?)
    }

    /// Records one page; the numbers of the commands that are recorded with their end.
    async fn record_page(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        commands: &[KnownCommand],
    ) -> Result<Vec<u64>, Error> {
        self.flush_history().await?;
        let ids: Vec<CommandId> = commands.iter().map(|command| command.id.clone()).collect();
        let written = self.store.written(sandbox.id(), &ids).await?;
        for command in commands {
            self.record(sandbox, agent, command, &written).await;
        }
        self.flush_history().await?;
        Ok(commands
            .iter()
            .filter(|command| command.status.ended.is_some())
            .map(|command| command.number)
            .collect())
    }

    async fn record(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        command: &KnownCommand,
        written: &HashMap<CommandId, Written>,
    ) {
        let status = &command.status;
        // The same id with another start is an earlier command.
        let written =
            written.get(&command.id).filter(|written| written.started_at_ms == status.started.at_ms);
        if written.is_some_and(|written| written.has_ended || status.ended.is_none()) {
            return;
        }
        let ended = match status.ended {
            Some(ended) => Some(self.judge(&sandbox.ooms, agent, &command.id, ended).await),
            None => None,
        };
        match (written, ended) {
            (Some(_), Some(ended)) => self.store.history().ended(sandbox.id(), &command.id, ended),
            _ => self.store.history().started(CommandRecord {
                sandbox: sandbox.id().clone(),
                id: command.id.clone(),
                argv: super::history::cut_argv(status.argv.iter().map(String::as_str)),
                cwd: relative(&status.cwd).to_owned(),
                detached: status.started.detached,
                timeout_ms: status.started.timeout.as_millis() as u64,
                started_at_ms: status.started.at_ms,
                digest: command.digest,
                ended,
            }),
        }
    }

    async fn flush_history(&self) -> Result<(), Error> {
        if self.store.history().flush().await { Ok(()) } else { Err(Error::HistoryUnwritten) }
    }
}

/// A directory as it is asked for: below the workspace, or empty for the workspace itself.
fn relative(cwd: &str) -> &str {
    cwd.strip_prefix(WORKSPACE).map_or(cwd, |rest| rest.trim_start_matches('/'))
}
