//! A session's sandbox: made, found again, deleted.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::order::{Exclusive, State};
use super::prepare::Prepared;
use super::registry::{Claim, Sandbox};
use super::{Error, Service};
use crate::agent::AgentHandle;
use crate::engine::ContainerPlan;
use crate::model::{SandboxSpec, Transport};

/// Times a create starts over because the sandbox it found was on its way out.
const CREATE_TRIES: usize = 3;

/// The sandbox a session has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnected {
    /// Its id.
    pub id: SandboxId,
    /// It was made for this call.
    pub created: bool,
    /// Its container had ended and was started again.
    pub woken: bool,
    /// What it was made from, which may differ from what was asked for now.
    pub spec: SandboxSpec,
}

impl Service {
    /// The sandbox of a session, made if there is none. Answers when its agent has.
    pub async fn create_or_reconnect(self: &Arc<Self>, spec: SandboxSpec) -> Result<Reconnected, Error> {
        let prepared = self.prepared()?.clone();
        for _ in 0..CREATE_TRIES {
            match self.registry.claim(spec.clone(), prepared.transport)? {
                Claim::New(sandbox, guard) => return self.create(sandbox, guard, prepared).await,
                Claim::Existing(sandbox) => {
                    if let Some(found) = self.reconnect(&sandbox).await? {
                        return Ok(found);
                    }
                }
            }
        }
        Err(Error::NotFound { resource: "sandbox" })
    }

    async fn create(
        self: &Arc<Self>,
        sandbox: Arc<Sandbox>,
        guard: Exclusive,
        prepared: Prepared,
    ) -> Result<Reconnected, Error> {
        let created = Reconnected {
            id: sandbox.id().clone(),
            created: true,
            woken: false,
            spec: sandbox.labels.spec.clone(),
        };
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move { service.make(&sandbox, guard, &prepared).await });
        match task.await {
            Ok(Ok(())) => Ok(created),
            Ok(Err(error)) => Err(Error::CreateFailed(error)),
            Err(source) => Err(Error::Task { source }),
        }
    }

    async fn make(
        &self,
        sandbox: &Sandbox,
        mut state: Exclusive,
        prepared: &Prepared,
    ) -> Result<(), Arc<Error>> {
        match self.bring_up(sandbox, prepared).await {
            Ok(agent) => {
                *state = State::Running(agent);
                info!(sandbox = %sandbox.id(), "made a sandbox");
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                *state = State::Failed(Arc::clone(&error));
                self.registry.remove(sandbox);
                Err(error)
            }
        }
    }

    /// Makes and starts the container and waits for its agent. Where that fails nothing is left.
    pub(super) async fn bring_up(
        &self,
        sandbox: &Sandbox,
        prepared: &Prepared,
    ) -> Result<AgentHandle, Error> {
        let agent = self.open_door(&sandbox.labels, sandbox.peer.subscribe())?;
        let run_dir = match sandbox.labels.transport {
            Transport::Socket => Some(self.run_dir_of(sandbox.id()).to_string_lossy().into_owned()),
            Transport::Engine => None,
        };
        let plan = ContainerPlan {
            labels: sandbox.labels.clone(),
            image: prepared.image.clone(),
            agent_volume: prepared.agent_volume.clone(),
            agent_secret: self.instance.agent_secret(sandbox.id()),
            run_dir,
            disk_device: None,
        };
        let started = async {
            self.engine.create_and_start(&plan).await?;
            self.await_agent(sandbox, &agent).await
        };
        match started.await {
            Ok(()) => Ok(agent),
            Err(error) => {
                self.take_down(sandbox).await.unwrap_or_else(|second| {
                    warn!(sandbox = %sandbox.id(), error = %second, "a failed sandbox could not be removed");
                });
                Err(error)
            }
        }
    }

    /// `None` where the sandbox turned out to be gone.
    async fn reconnect(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<Option<Reconnected>, Error> {
        let woken = match self.wake_if_ended(sandbox).await {
            Err(Error::NotFound { .. }) => false,
            other => other?,
        };
        let state = sandbox.order.shared().await;
        match &*state {
            State::Running(_) => Ok(Some(Reconnected {
                id: sandbox.id().clone(),
                created: false,
                woken,
                spec: sandbox.labels.spec.clone(),
            })),
            State::Failed(error) => Err(Error::CreateFailed(Arc::clone(error))),
            State::Stuck => {
                drop(state);
                self.delete(sandbox.id()).await?;
                Ok(None)
            }
            State::Creating | State::Deleted => Ok(None),
        }
    }

    /// Deletes a sandbox with everything it has; done as well where there is none.
    pub async fn delete(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move { service.delete_now(&sandbox).await });
        task.await.map_err(|source| Error::Task { source })?
    }

    async fn delete_now(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if let State::Running(agent) = &*sandbox.order.shared().await {
            // Whoever uses it now is let go at once instead of being waited for.
            agent.hang_up();
        }
        let mut state = sandbox.order.exclusive().await;
        if matches!(*state, State::Failed(_) | State::Deleted) {
            return Ok(());
        }
        *state = State::Stuck;
        self.take_down(sandbox).await?;
        *state = State::Deleted;
        self.registry.remove(sandbox);
        info!(sandbox = %sandbox.id(), "deleted a sandbox");
        Ok(())
    }

    /// Removes container, volume and socket.
    pub(super) async fn take_down(&self, sandbox: &Sandbox) -> Result<(), Error> {
        self.engine.remove(sandbox.id()).await?;
        match std::fs::remove_dir_all(self.run_dir_of(sandbox.id())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::RunDir { source: error })
            }
            _ => Ok(()),
        }
    }
}
