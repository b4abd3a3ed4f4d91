//! Contexts in a sandbox: interpreters that keep their state between runs of code.
//!
//! Only the agent has their state. Nothing is stored, and they are gone with their container. A run keeps its sandbox in
//! use and counts as a command of its project. A context without a run does not prevent its sandbox from being parked.
//!
//! Code can call the tools of the client that opened the context. The agent asks, [`calls_of_run`] checks the arguments and
//! tells the client, and [`answer`] checks the result.

mod answer;
mod calls_of_run;
mod open_calls;
mod run;
mod stream;
mod toolset;

use std::sync::Arc;

use sandbox_api::{ContextId, SandboxId};
use tracing::warn;

use self::open_calls::OpenCalls;
pub use self::stream::RunStream;
use super::Error;
use super::history::History;
use super::lifecycle::{InUse, Lifecycle, Sandbox};
use super::quotas::Quotas;
use super::snapshots::Snapshots;
use crate::agent;
use crate::model::context::{ContextSpec, ContextStatus};
use crate::service::Authorized;

/// Opens, runs, lists, interrupts and closes contexts.
#[derive(Debug)]
pub struct Contexts {
    lifecycle: Arc<Lifecycle>,
    history: Arc<History>,
    snapshots: Arc<Snapshots>,
    quotas: Arc<Quotas>,
    open_calls: OpenCalls,
}

impl Contexts {
    pub(in crate::service) fn new(
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
            open_calls: OpenCalls::default(),
        }
    }

    /// Opens a context. Returns when its interpreter has started.
    pub async fn open(&self, id: &Authorized<SandboxId>, spec: ContextSpec) -> Result<(), Error> {
        toolset::check(&spec.tools)?;
        let in_use = self.lifecycle.in_use(id).await?;
        let spec = with_env(spec, in_use.sandbox());
        let opened = match in_use.agent().open_context(&spec).await {
            // A retry is safe, because the agent opens no context with the same id twice.
            Err(error) if error.is_broken() => in_use.agent().open_context(&spec).await,
            other => other,
        };
        in_use.count_if_accepted(opened)
    }

    /// Lists the contexts of a sandbox, oldest first.
    pub async fn list(&self, id: &Authorized<SandboxId>) -> Result<Vec<ContextStatus>, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().contexts().await?)
    }

    /// Returns a context.
    pub async fn inspect(
        &self,
        id: &Authorized<SandboxId>,
        context: &ContextId,
    ) -> Result<ContextStatus, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().inspect_context(context).await?)
    }

    /// Interrupts the run of a context. Returns whether there is one.
    pub async fn interrupt(&self, id: &Authorized<SandboxId>, context: &ContextId) -> Result<bool, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().interrupt_context(context).await?)
    }

    /// Starts a new interpreter in place of the current one.
    pub async fn restart(&self, id: &Authorized<SandboxId>, context: &ContextId) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let restarts = in_use.sandbox().ledger().restarts();
        let restarted = in_use.agent().restart_context(context).await;
        self.unless_stuck(in_use, context, restarts, restarted).await
    }

    /// Ends a context and everything that was started from it, and removes it.
    pub async fn close(&self, id: &Authorized<SandboxId>, context: &ContextId) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let restarts = in_use.sandbox().ledger().restarts();
        let closed = in_use.agent().close_context(context).await;
        self.unless_stuck(in_use, context, restarts, closed).await
    }

    /// If the agent cannot end a context, the container is restarted, as for a command. `restarts` is the number of restarts
    /// before the call.
    async fn unless_stuck(
        &self,
        in_use: InUse,
        context: &ContextId,
        restarts: u64,
        ended: Result<(), agent::Error>,
    ) -> Result<(), Error> {
        let (sandbox, _, _mark) = in_use.unlock();
        match ended {
            Err(agent::Error::Deadline { after }) => {
                warn!(sandbox = %sandbox.id(), %context, ?after, "a context did not end; restarting its container");
                self.lifecycle.restart(&sandbox, restarts, None).await
            }
            other => Ok(other?),
        }
    }
}

/// Adds the sandbox's environment to a context, and its secrets. The context's own variables take precedence, and their
/// values are secret under the same names.
fn with_env(mut spec: ContextSpec, sandbox: &Sandbox) -> ContextSpec {
    sandbox.with_spec(|spec_of_sandbox| {
        spec.secrets = spec_of_sandbox.secrets_beside(&spec.env);
        for (name, value) in &spec_of_sandbox.env {
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    });
    spec
}
