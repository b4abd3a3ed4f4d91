//! A session gets a sandbox that has waited for one.
//!
//! The note beside the disk comes first, and then the row in the store, which makes the sandbox the session's. So a note says
//! at least as much as the store: a sandbox whose note names a session, and which has no row, is the session's after a restart.
//! The session has no answer then, and finds an unused sandbox.

use std::sync::Arc;

use tracing::info;

use super::activity::InUseMark;
use super::order::{Exclusive, Running, State};
use super::pool::Started;
use super::sandbox::Sandbox;
use super::view::agent_info;
use super::{Error, Lifecycle};
use crate::agent;
use crate::model::{SandboxRecord, Stage, limits};
use crate::seam;
use crate::service::Authorized;

impl Lifecycle {
    /// Gives a sandbox that has waited to its session, in a tracked task. After an error the sandbox is deleted, so that the
    /// session can get another one.
    pub(super) async fn give(
        self: &Arc<Self>,
        sandbox: Arc<Sandbox>,
        guard: Exclusive,
        started: Started,
    ) -> Result<(), Error> {
        let _mark = InUseMark::request(sandbox.activity());
        let lifecycle = Arc::clone(self);
        self.tasks.run_detached(async move { lifecycle.give_or_delete(&sandbox, guard, started).await }).await
    }

    async fn give_or_delete(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        mut state: Exclusive,
        started: Started,
    ) -> Result<(), Error> {
        match self.give_steps(sandbox, &started).await {
            Ok(()) => {
                let Started { agent, permit, .. } = started;
                let egress = self.begin_egress(sandbox, &agent);
                *state = State::Running(Running { agent, permit, egress });
                self.metrics.taken_from_pool();
                info!(sandbox = %sandbox.id(), "sandbox created from one that has waited");
                Ok(())
            }
            Err(error) => {
                started.agent.close();
                sandbox.update(|record| record.stage = Stage::Deleting);
                *state = State::Deleting;
                drop(state);
                // If this fails, the next reconcile retries.
                let _ = self.delete(&Authorized::new(sandbox.id().clone())).await;
                Err(error)
            }
        }
    }

    async fn give_steps(&self, sandbox: &Sandbox, started: &Started) -> Result<(), Error> {
        let labels = sandbox.labels();
        let (answer, noted) = tokio::join!(agent_info(&started.agent), self.storage.set_note(&labels));
        seam::at("claim.note");
        answer.ok_or(agent::Error::NotConnected { waited: limits::USAGE })?;
        noted?;
        self.store.begin(&SandboxRecord { stage: Stage::Running, ..sandbox.record() }).await?;
        seam::at("claim.row");
        sandbox.update(|record| record.stage = Stage::Running);
        Ok(())
    }
}
