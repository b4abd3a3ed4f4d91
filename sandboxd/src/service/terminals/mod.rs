//! Terminals in a sandbox.
//!
//! Only the agent has their state. Nothing is stored, and they are gone with their container. A program that runs on a
//! terminal, or an attached viewer, prevents its sandbox from being parked. A waiting shell does not.

mod view;

use std::sync::Arc;

use bytes::Bytes;
use sandbox_api::{SandboxId, TerminalId};
use tracing::warn;

pub use self::view::{TerminalHandle, TerminalView};
use super::Error;
use super::lifecycle::{Lifecycle, Sandbox};
use crate::agent;
use crate::model::terminal::ViewFrom;
use crate::model::{TerminalSize, TerminalSpec, TerminalStatus};
use crate::service::Authorized;

/// Terminal type for the programs (term(7)), because most viewers are compatible with it.
const TERM: &str = "xterm-256color";

/// Opens, lists, attaches to and closes terminals.
#[derive(Debug)]
pub struct Terminals {
    lifecycle: Arc<Lifecycle>,
}

impl Terminals {
    pub(in crate::service) fn new(lifecycle: &Arc<Lifecycle>) -> Self {
        Self { lifecycle: Arc::clone(lifecycle) }
    }

    /// Opens a terminal. Returns when its program runs.
    pub async fn open(&self, id: &Authorized<SandboxId>, spec: TerminalSpec) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let spec = with_env(spec, in_use.sandbox());
        let opened = match in_use.agent().open_terminal(&spec).await {
            // A retry is safe, because the agent opens no terminal with the same id twice.
            Err(error) if error.is_broken() => in_use.agent().open_terminal(&spec).await,
            other => other,
        };
        in_use.count_if_accepted(opened)
    }

    /// Lists the terminals of a sandbox, newest first, without their screens.
    pub async fn list(&self, id: &Authorized<SandboxId>) -> Result<Vec<TerminalStatus>, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().terminals().await?)
    }

    /// Returns a terminal with its screen.
    pub async fn inspect(
        &self,
        id: &Authorized<SandboxId>,
        terminal: &TerminalId,
    ) -> Result<TerminalStatus, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().inspect_terminal(terminal).await?)
    }

    /// Resizes a terminal.
    pub async fn resize(
        &self,
        id: &Authorized<SandboxId>,
        terminal: &TerminalId,
        size: TerminalSize,
    ) -> Result<(), Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().resize_terminal(terminal, size).await?)
    }

    /// Types into a terminal. Never retried, because input must not arrive twice.
    pub async fn type_into(
        &self,
        id: &Authorized<SandboxId>,
        terminal: &TerminalId,
        data: Bytes,
    ) -> Result<(), Error> {
        // A delete must not wait for a program that does not read its input.
        let (_, agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        Ok(agent.type_into(terminal, data).await?)
    }

    /// Ends a terminal with all processes that were started from it, and removes it. If the agent cannot end them, the
    /// container is restarted, as for a command.
    pub async fn close(&self, id: &Authorized<SandboxId>, terminal: &TerminalId) -> Result<(), Error> {
        let (sandbox, agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        let restarts = sandbox.ledger().restarts();
        match agent.close_terminal(terminal).await {
            Err(agent::Error::Deadline { after }) => {
                warn!(sandbox = %sandbox.id(), %terminal, ?after, "a terminal did not end; restarting its container");
                self.lifecycle.restart(&sandbox, restarts, None).await
            }
            other => Ok(other?),
        }
    }

    /// Attaches to a terminal: returns its kept output, then new output to its end.
    pub async fn view(
        &self,
        id: &Authorized<SandboxId>,
        terminal: &TerminalId,
    ) -> Result<TerminalView, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let permit = in_use.sandbox().reader()?;
        let events = match in_use.agent().view_terminal(terminal, ViewFrom::Scrollback).await {
            Err(error) if error.is_broken() => {
                in_use.agent().view_terminal(terminal, ViewFrom::Scrollback).await?
            }
            other => other?,
        };
        Ok(TerminalView::new(&self.lifecycle, in_use, terminal.clone(), events, permit))
    }
}

/// Adds the sandbox's environment to a terminal, and its secrets. The terminal's own variables take precedence, and their
/// values are secret under the same names.
fn with_env(mut spec: TerminalSpec, sandbox: &Sandbox) -> TerminalSpec {
    sandbox.with_spec(|spec_of_sandbox| {
        spec.secrets = spec_of_sandbox.secrets_beside(&spec.env);
        for (name, value) in &spec_of_sandbox.env {
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    });
    spec.env.entry("TERM".into()).or_insert_with(|| TERM.into());
    spec
}
