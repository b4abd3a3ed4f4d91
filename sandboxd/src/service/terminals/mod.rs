//! Terminals in a sandbox.
//!
//! They are the agent's alone: nothing of them is written down, and with their container they are gone. Only what
//! runs on one keeps its sandbox from being parked, and whoever looks at it; a shell that waits does not.

mod view;

use std::sync::Arc;

use bytes::Bytes;
use sandbox_api::{SandboxId, TerminalId};
use tracing::warn;

pub use self::view::{TerminalHand, TerminalView};
use super::Error;
use super::lifecycle::{Lifecycle, Sandbox};
use crate::agent;
use crate::model::terminal::ViewFrom;
use crate::model::{TerminalSize, TerminalSpec, TerminalStatus};

/// What the terminal is, to the programs on it (term(7)): what the viewers are, give or take.
const TERM: &str = "xterm-256color";

/// Opens, shows and closes terminals.
#[derive(Debug)]
pub struct Terminals {
    lifecycle: Arc<Lifecycle>,
}

impl Terminals {
    pub(in crate::service) fn new(lifecycle: &Arc<Lifecycle>) -> Self {
        Self { lifecycle: Arc::clone(lifecycle) }
    }

    /// Opens a terminal; done when its program runs.
    pub async fn open(&self, id: &SandboxId, spec: TerminalSpec) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let spec = with_env(spec, in_use.sandbox());
        let opened = match in_use.agent().open_terminal(&spec).await {
            // The id makes the second try safe: what was opened is not opened again.
            Err(error) if error.is_broken() => in_use.agent().open_terminal(&spec).await,
            other => other,
        };
        in_use.count_if_accepted(opened)
    }

    /// The terminals of a sandbox, the newest first, without their screens.
    pub async fn list(&self, id: &SandboxId) -> Result<Vec<TerminalStatus>, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().terminals().await?)
    }

    /// A terminal with its screen.
    pub async fn inspect(&self, id: &SandboxId, terminal: &TerminalId) -> Result<TerminalStatus, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().inspect_terminal(terminal).await?)
    }

    /// Gives a terminal another size.
    pub async fn resize(
        &self,
        id: &SandboxId,
        terminal: &TerminalId,
        size: TerminalSize,
    ) -> Result<(), Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().resize_terminal(terminal, size).await?)
    }

    /// Types into a terminal. Never tried twice: nobody wants to have typed something twice.
    pub async fn type_into(&self, id: &SandboxId, terminal: &TerminalId, data: Bytes) -> Result<(), Error> {
        // A delete must not wait for a program that does not read.
        let (_, agent, _mark) = self.lifecycle.in_use(id).await?.unlock();
        Ok(agent.type_into(terminal, data).await?)
    }

    /// Ends a terminal with everything that was started from it, and forgets it. As for a command, the engine
    /// ends what the agent cannot.
    pub async fn close(&self, id: &SandboxId, terminal: &TerminalId) -> Result<(), Error> {
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

    /// Looks at a terminal from what is kept of it to its end.
    pub async fn view(&self, id: &SandboxId, terminal: &TerminalId) -> Result<TerminalView, Error> {
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

/// A terminal with its sandbox's environment beneath its own.
fn with_env(mut spec: TerminalSpec, sandbox: &Sandbox) -> TerminalSpec {
    sandbox.with_spec(|spec_of_sandbox| {
        for (name, value) in &spec_of_sandbox.env {
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
    });
    spec.env.entry("TERM".into()).or_insert_with(|| TERM.into());
    spec
}
