//! Ends commands that their agent did not end at their timeout. It tries the agent first. If that takes too long, it
//! restarts the container.

use std::sync::Arc;
use std::time::Instant;

use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use tokio::time::timeout;
use tracing::warn;

use super::Commands;
use crate::agent;
use crate::model::{Refusal, Resource, limits};
use crate::service::lifecycle::Sandbox;

impl Commands {
    /// Ends the commands of a sandbox that their agent should have ended already.
    pub(in crate::service) fn end_overdue(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        for command in sandbox.ledger().take_overdue(Instant::now()) {
            let (commands, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
            self.tasks.spawn(async move { commands.end_late(&sandbox, &command).await });
        }
    }

    async fn end_late(self: &Arc<Self>, sandbox: &Arc<Sandbox>, command: &CommandId) {
        // Without a container, no process of the command runs.
        let Some(agent) = sandbox.running_agent().await else { return };
        match timeout(limits::OVERDUE_WAIT, agent.inspect(command)).await {
            // It has ended. Only its reader does not know yet.
            Ok(Ok(status)) if status.ended.is_some() => return,
            Ok(Err(agent::Error::Refused(Refusal::NotFound(Resource::Command)))) => return,
            _ => {}
        }
        warn!(sandbox = %sandbox.id(), %command, "a command still runs after its timeout; ending it");
        let done = self.end_within(sandbox, &agent, command, limits::OVERDUE_KILL, EndReason::Timeout).await;
        if let Err(error) = done {
            warn!(sandbox = %sandbox.id(), %command, error = &error as &dyn std::error::Error, "could not end a command after its timeout");
        }
    }
}
