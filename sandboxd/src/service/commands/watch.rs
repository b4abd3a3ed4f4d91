//! Watches commands whose end no client waits for.
//!
//! A running command prevents its sandbox from being parked. Therefore the daemon must notice its end even if no caller
//! waits for it.

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::CommandId;
use tracing::{debug, warn};

use super::Commands;
use crate::agent::AgentHandle;
use crate::model::limits;
use crate::service::clock::now_ms;
use crate::service::lifecycle::{InUseMark, Sandbox};

impl Commands {
    /// Watches the commands of restored sandboxes: those without an end in the store, and those that only the agents know.
    pub(in crate::service) async fn watch_restored(self: &Arc<Self>) {
        for sandbox in self.lifecycle.all() {
            if !sandbox.ledger().is_unrecorded() {
                continue;
            }
            if let Some(agent) = sandbox.running_agent().await {
                self.watch_earlier(&sandbox, i64::MAX).await;
                self.record_restored(&sandbox, &agent);
            }
        }
    }

    /// Waits for a command's end in the background and records it. Holds the mark until then.
    pub(super) fn watch(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        agent: &AgentHandle,
        command: &CommandId,
        mark: InUseMark,
    ) {
        if !sandbox.ledger().begin_watch(command) {
            return;
        }
        let (commands, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let (agent, command) = (agent.clone(), command.clone());
        // Not one of the tasks that a shutdown waits for, because a command may run for hours.
        tokio::spawn(async move {
            let ended = tokio::select! {
                // The next daemon watches the command.
                () = commands.tasks.closing().cancelled() => return,
                ended = commands.wait_across_reconnects(&sandbox, &agent, &command) => ended,
            };
            match ended {
                Ok(ended) => commands.note_end(&sandbox, &command, ended),
                Err(error) => {
                    warn!(sandbox = %sandbox.id(), %command, error = &error as &dyn std::error::Error, "could not watch a command to its end");
                }
            }
            sandbox.ledger().end_watch(&command);
            drop(mark);
        });
    }

    /// Watches the commands that started before `restored_at_ms` and have no end yet. Later ones were started by this
    /// daemon and are watched already. A second watcher would keep their sandbox in use for a moment after their end.
    async fn watch_earlier(self: &Arc<Self>, sandbox: &Arc<Sandbox>, restored_at_ms: i64) {
        let Some(agent) = sandbox.running_agent().await else { return };
        match self.store.unended(sandbox.id()).await {
            Ok(commands) => {
                let earlier = commands.into_iter().filter(|command| command.started_at_ms < restored_at_ms);
                for command in earlier {
                    let ran = now_ms().saturating_sub(command.started_at_ms).max(0) as u64;
                    let rest = Duration::from_millis(command.timeout_ms.saturating_sub(ran));
                    sandbox.ledger().restore_deadline(command.id.clone(), rest);
                    self.snapshots.note_running(sandbox, &command.id, command.passive);
                    let charge = self.quotas.existing_command(&sandbox.owner().project);
                    let mark = InUseMark::command(sandbox.activity(), command.passive).holding(charge);
                    self.watch(sandbox, &agent, &command.id, mark);
                    if command.passive {
                        self.end_abandoned(sandbox, &agent, command.id);
                    }
                }
            }
            Err(error) => {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not read which commands were running");
            }
        }
    }

    /// Ends a passive command of an earlier daemon. The client that used it has lost its stream.
    fn end_abandoned(self: &Arc<Self>, sandbox: &Arc<Sandbox>, agent: &AgentHandle, command: CommandId) {
        let (commands, sandbox, agent) = (Arc::clone(self), Arc::clone(sandbox), agent.clone());
        self.tasks.spawn(async move {
            if let Err(error) = commands.end_command(&sandbox, &agent, &command).await {
                warn!(sandbox = %sandbox.id(), %command, error = &error as &dyn std::error::Error, "could not end a passive command of an earlier daemon");
            }
        });
    }

    /// Records the commands that a restored sandbox's agent knows, as soon as it is connected, and watches the running
    /// ones. Does not wait.
    fn record_restored(self: &Arc<Self>, sandbox: &Arc<Sandbox>, agent: &AgentHandle) {
        let (commands, sandbox, agent) = (Arc::clone(self), Arc::clone(sandbox), agent.clone());
        let restored_at_ms = now_ms();
        // Not one of the tasks that a shutdown waits for, because the next daemon repeats it.
        tokio::spawn(async move {
            let record = async {
                agent.connected(limits::AGENT_FIRST_ANSWER).await?;
                commands.history.record_unrecorded(sandbox.ledger(), &agent).await
            };
            let recorded = tokio::select! {
                () = commands.tasks.closing().cancelled() => return,
                recorded = record => recorded,
            };
            match recorded {
                Ok(()) => commands.watch_earlier(&sandbox, restored_at_ms).await,
                Err(error) => {
                    debug!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not list a restored sandbox's commands yet");
                }
            }
        });
    }

    /// Records the commands that the agents know, if entries were dropped since the last call.
    pub(in crate::service) async fn record_dropped(self: &Arc<Self>) {
        if !self.history.was_dropped() {
            return;
        }
        for sandbox in self.lifecycle.all() {
            sandbox.ledger().set_unrecorded(true);
            if let Some(agent) = sandbox.running_agent_now() {
                self.history.record_if_possible(sandbox.ledger(), &agent).await;
            }
        }
    }
}
