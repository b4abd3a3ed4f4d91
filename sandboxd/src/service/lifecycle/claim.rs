//! A session gets a sandbox that has waited for one.
//!
//! The row in the store comes first: from then on the sandbox is the session's, whatever happens. The note beside the disk
//! follows, for a daemon that has lost its store. Until the client has its answer, nothing of the session is in the sandbox.

use std::sync::Arc;

use tracing::info;

use super::activity::InUseMark;
use super::order::{Exclusive, Running, State};
use super::pool::Started;
use super::sandbox::Sandbox;
use super::view::agent_info;
use super::{Error, Lifecycle, Seed};
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
        seed: Option<Arc<dyn Seed>>,
    ) -> Result<(), Error> {
        let _mark = InUseMark::request(sandbox.activity());
        let lifecycle = Arc::clone(self);
        self.tasks
            .run_detached(
                async move { lifecycle.give_or_delete(&sandbox, guard, started, seed.as_deref()).await },
            )
            .await
    }

    async fn give_or_delete(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        mut state: Exclusive,
        started: Started,
        seed: Option<&dyn Seed>,
    ) -> Result<(), Error> {
        match self.give_steps(sandbox, &started, seed).await {
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

    async fn give_steps(
        &self,
        sandbox: &Sandbox,
        started: &Started,
        seed: Option<&dyn Seed>,
    ) -> Result<(), Error> {
        // Without its first files, it must not outlive a daemon that ends meanwhile.
        let stage = if seed.is_some() { Stage::Creating } else { Stage::Running };
        let row = SandboxRecord { stage, ..sandbox.record() };
        let answer = async {
            let info = agent_info(&started.agent).await;
            info.map(drop).ok_or(agent::Error::NotConnected { waited: limits::USAGE })
        };
        // Both to their end, so that the row is removed after it was written.
        let (begun, answered) = tokio::join!(self.store.begin(&row), answer);
        begun?;
        answered?;
        seam::at("claim.row");
        self.storage.set_note(&sandbox.labels()).await?;
        seam::at("claim.note");
        if let Some(seed) = seed {
            seed.fill(&started.agent).await?;
            seed.keep_values(sandbox).await?;
            self.store.put(&SandboxRecord { stage: Stage::Running, ..sandbox.record() }).await?;
        }
        sandbox.update(|record| record.stage = Stage::Running);
        Ok(())
    }
}
