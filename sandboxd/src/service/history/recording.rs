//! Records the commands that only their agent knows.
//!
//! History is written asynchronously, so a killed daemon loses the newest entries. The agent remembers at least as many
//! commands as can be lost that way. They are recorded when a sandbox is restored, and before its container is removed,
//! which ends the agent. Otherwise the same command id could run twice.

use std::collections::HashMap;

use sandbox_api::CommandId;
use tokio::time::timeout;
use tracing::warn;

use super::{Error, History, Ledger, cut_argv};
use crate::agent::{self, AgentHandle, KnownCommand};
use crate::model::layout::WORKSPACE;
use crate::model::{CommandRecord, limits};
use crate::store::Written;

impl History {
    /// Like [`Self::record_unrecorded`], but only logs errors.
    pub(in crate::service) async fn record_if_possible(&self, ledger: &Ledger, agent: &AgentHandle) {
        if let Err(error) = self.record_unrecorded(ledger, agent).await {
            warn!(sandbox = %ledger.sandbox, error = &error as &dyn std::error::Error, "could not record the commands of an agent");
        }
    }

    /// Records the commands that the store may lack. Does nothing if it lacks none.
    pub(in crate::service) async fn record_unrecorded(
        &self,
        ledger: &Ledger,
        agent: &AgentHandle,
    ) -> Result<(), Error> {
        if !ledger.is_unrecorded() {
            return Ok(());
        }
        agent.connected(limits::AGENT_ABSENCE).await?;
        let late = |_| agent::Error::Deadline { after: limits::RECORD_COMMANDS };
        timeout(limits::RECORD_COMMANDS, self.record_all(ledger, agent)).await.map_err(late)??;
        ledger.set_unrecorded(false);
        Ok(())
    }

    async fn record_all(&self, ledger: &Ledger, agent: &AgentHandle) -> Result<(), Error> {
        let (mut after, mut recorded) = (0, Vec::new());
        for _ in 0..limits::MAX_COMMAND_PAGES {
            let page = match agent.unrecorded_commands(recorded, after).await {
                // An agent of this version has no such list.
                Err(agent::Error::Outdated) => return Ok(()),
                page => page?,
            };
            recorded = self.record_page(ledger, agent, &page.commands).await?;
            match page.commands.last() {
                Some(last) if page.more => after = last.number,
                _ => break,
            }
        }
        // Only confirms the last page: no command has a number after the maximum.
        Ok(agent.unrecorded_commands(recorded, u64::MAX).await.map(drop)?)
    }

    /// Records one page. Returns the numbers of the commands whose end is recorded too, which the agent may drop.
    async fn record_page(
        &self,
        ledger: &Ledger,
        agent: &AgentHandle,
        commands: &[KnownCommand],
    ) -> Result<Vec<u64>, Error> {
        self.flush_history().await?;
        let ids: Vec<CommandId> = commands.iter().map(|command| command.id.clone()).collect();
        let written = self.store.written(&ledger.sandbox, &ids).await?;
        for command in commands {
            self.record(ledger, agent, command, &written).await;
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
        ledger: &Ledger,
        agent: &AgentHandle,
        command: &KnownCommand,
        written: &HashMap<CommandId, Written>,
    ) {
        let status = &command.status;
        // A record with the same id and another start is of an earlier command.
        let written =
            written.get(&command.id).filter(|written| written.started_at_ms == status.started.at_ms);
        if written.is_some_and(|written| written.has_ended || status.ended.is_none()) {
            return;
        }
        let ended = match &status.ended {
            Some(ended) => Some(self.confirm_oom(ledger, agent, &command.id, ended.clone()).await),
            None => None,
        };
        match (written, ended) {
            (Some(_), Some(ended)) => self.store.history().ended(&ledger.sandbox, &command.id, ended),
            (_, ended) => self.store.history().started(CommandRecord {
                sandbox: ledger.sandbox.clone(),
                id: command.id.clone(),
                argv: cut_argv(status.argv.iter().map(String::as_str)),
                cwd: relative(&status.cwd).to_owned(),
                detached: status.started.detached,
                passive: command.digest.is_some_and(|digest| digest.is_passive()),
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

/// Converts a directory to the form in which requests name it: relative to the workspace, and empty for the workspace.
fn relative(cwd: &str) -> &str {
    cwd.strip_prefix(WORKSPACE).map_or(cwd, |rest| rest.trim_start_matches('/'))
}
