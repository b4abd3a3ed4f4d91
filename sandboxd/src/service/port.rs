//! Ports of a sandbox: what listens, and the way there.

use std::sync::Arc;

use sandbox_api::SandboxId;

use super::activity::{Activity, InUseMark};
use super::links::Link;
use super::order::{Running, State};
use super::{Error, Service};
use crate::agent::Tunnel;
use crate::model::port::ListeningPorts;
use crate::model::preview::PreviewSettings;

/// The use of a sandbox by a visitor of a preview, for as long as it lives.
#[derive(Debug)]
pub struct PreviewUse {
    mark: InUseMark,
    activity: Arc<Activity>,
}

impl PreviewUse {
    /// For a connection that stays open: from now on only [`PreviewTrace::touch`] counts as use.
    pub fn into_trace(self) -> PreviewTrace {
        drop(self.mark);
        PreviewTrace { activity: self.activity }
    }
}

/// A connection that is open, and may be used.
#[derive(Debug)]
pub struct PreviewTrace {
    activity: Arc<Activity>,
}

impl PreviewTrace {
    /// Counts as use of the sandbox.
    pub fn touch(&self) {
        self.activity.touch();
    }
}

impl Service {
    /// Where previews are found.
    pub fn preview_settings(&self) -> &PreviewSettings {
        &self.setup.preview
    }

    /// What listens in a sandbox; nothing while it is parked. Neither wakes it nor counts as use.
    pub async fn listening(&self, id: &SandboxId) -> Result<ListeningPorts, Error> {
        let sandbox = self.find(id)?;
        let agent = match &*sandbox.order.shared().await {
            State::Running(Running { agent, .. }) => agent.clone(),
            State::Parked => return Ok(ListeningPorts::default()),
            _ => return Err(Error::NotFound { resource: "sandbox" }),
        };
        Ok(agent.listening().await?)
    }

    /// Takes note that a visitor uses a link's sandbox. It is woken where it was parked.
    pub async fn use_preview(self: &Arc<Self>, link: &Link) -> Result<PreviewUse, Error> {
        let record = link.record();
        self.offers(&record.sandbox, record.port)?;
        let (sandbox, _, mark) = self.in_use(&record.sandbox).await?.let_go();
        Ok(PreviewUse { mark, activity: Arc::clone(&sandbox.activity) })
    }

    /// A connection to what listens on a port of the sandbox's loopback.
    pub async fn connect_port(self: &Arc<Self>, id: &SandboxId, port: u16) -> Result<Tunnel, Error> {
        let in_use = self.in_use(id).await?;
        match in_use.agent.connect_port(port).await {
            // Nothing was sent yet, so a second try is safe.
            Err(error) if error.is_broken() => Ok(in_use.agent.connect_port(port).await?),
            other => Ok(other?),
        }
    }
}
