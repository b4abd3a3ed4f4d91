//! Ports of sandboxes: links to them, ports that are published on the host, and connections to them.
//!
//! A sandbox exposes only the ports of its spec ([`Previews::check_offered`]). Listing ports neither wakes a sandbox nor
//! counts as use.

mod carry;
mod link;
mod link_lifecycle;
mod listener_lifecycle;
mod listeners;
mod publication;
mod publish;
mod published_connections;
mod publisher_listener;
mod tunnel;

use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use sandbox_api::SandboxId;

pub use self::carry::carry;
use self::link::LinkIndex;
pub use self::link::{Link, LinkRequest};
pub use self::listeners::LinkListener;
use self::listeners::Listeners;
use self::publication::Publications;
pub use self::tunnel::Tunnel;
use super::audit::Audit;
use super::egress::Egress;
use super::lifecycle::{Activity, Attachments, InUseMark, Lifecycle};
use super::quotas::Quotas;
use super::tasks::Tasks;
use super::{Context, Error, Setup};
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::Instance;
use crate::model::port::ListeningPorts;
use crate::model::preview::PreviewSettings;
use crate::service::Authorized;
use crate::store::Store;

/// Use of a sandbox by a visitor of a preview. Keeps the sandbox in use until it is dropped.
#[derive(Debug)]
pub struct PreviewUse {
    mark: InUseMark,
    activity: Arc<Activity>,
}

impl PreviewUse {
    /// Converts for a connection that stays open. From now on, only [`PreviewActivity::touch`] counts as use.
    pub fn into_activity(self) -> PreviewActivity {
        drop(self.mark);
        PreviewActivity { activity: self.activity }
    }
}

/// An open connection of a visitor, which may be idle.
#[derive(Debug)]
pub struct PreviewActivity {
    activity: Arc<Activity>,
}

impl PreviewActivity {
    /// Counts as use of the sandbox.
    pub fn touch(&self) {
        self.activity.touch();
    }
}

/// Exposes ports of sandboxes.
#[derive(Debug)]
pub struct Previews {
    audit: Arc<Audit>,
    lifecycle: Arc<Lifecycle>,
    egress: Arc<Egress>,
    quotas: Arc<Quotas>,
    engine: Engine,
    store: Arc<Store>,
    instance: Arc<Instance>,
    setup: Arc<Setup>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
    links: LinkIndex,
    listeners: Listeners,
    publications: Publications,
}

impl Attachments for Previews {
    fn before_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<(), Error>> {
        self.unpublish_all(id).boxed()
    }

    fn after_delete<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, ()> {
        self.end_links_of(id).boxed()
    }
}

impl Previews {
    pub(in crate::service) fn new(
        context: &Context,
        audit: &Arc<Audit>,
        lifecycle: &Arc<Lifecycle>,
        egress: &Arc<Egress>,
        quotas: &Arc<Quotas>,
    ) -> Arc<Self> {
        let previews = Arc::new(Self {
            audit: Arc::clone(audit),
            lifecycle: Arc::clone(lifecycle),
            egress: Arc::clone(egress),
            quotas: Arc::clone(quotas),
            engine: context.engine.clone(),
            store: Arc::clone(&context.store),
            instance: Arc::clone(&context.instance),
            setup: Arc::clone(&context.setup),
            metrics: Arc::clone(&context.metrics),
            tasks: context.tasks.clone(),
            links: LinkIndex::default(),
            listeners: Listeners::default(),
            publications: Publications::default(),
        });
        let attachments: Arc<dyn Attachments> = previews.clone();
        lifecycle.set_attachments(Arc::downgrade(&attachments));
        previews
    }

    /// Settings of the preview listeners.
    pub fn settings(&self) -> &PreviewSettings {
        &self.setup.preview
    }

    /// Lists the listening ports of a sandbox. A parked sandbox has none. Neither wakes it nor counts as use.
    pub async fn listening(&self, id: &Authorized<SandboxId>) -> Result<ListeningPorts, Error> {
        match self.lifecycle.agent_unless_parked(id).await? {
            Some(agent) => Ok(agent.listening().await?),
            None => Ok(ListeningPorts::default()),
        }
    }

    /// Records that a visitor opens a link. If this fails, the link must not be opened.
    pub fn record_visit(&self, link: &Link, visitor: IpAddr) -> Result<(), Error> {
        let record = link.record();
        let owner = self.lifecycle.registered(&record.sandbox).map(|sandbox| sandbox.owner().clone());
        self.audit.record_visit(record, owner.as_ref(), visitor)
    }

    /// Marks a link's sandbox as used by a visitor. Wakes it if it is parked.
    pub async fn use_preview(self: &Arc<Self>, link: &Link) -> Result<PreviewUse, Error> {
        let record = link.record();
        self.check_offered(&record.sandbox, record.port)?;
        let (sandbox, _, mark) = self.lifecycle.in_use(&record.sandbox).await?.unlock();
        Ok(PreviewUse { mark, activity: Arc::clone(sandbox.activity()) })
    }

    /// Connects to a port on the sandbox's loopback interface, and keeps the sandbox in use.
    pub async fn use_port(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        port: u16,
    ) -> Result<(Tunnel, PreviewUse), Error> {
        let (sandbox, _, mark) = self.lifecycle.in_use(id).await?.unlock();
        let used = PreviewUse { mark, activity: Arc::clone(sandbox.activity()) };
        Ok((self.connect_port(id, port).await?, used))
    }

    /// Connects to a port on the sandbox's loopback interface, for a visitor whose link was checked.
    pub async fn connect_port(self: &Arc<Self>, id: &SandboxId, port: u16) -> Result<Tunnel, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let tunnel = match in_use.agent().connect_port(port).await {
            // Nothing was sent yet, so a retry is safe.
            Err(error) if error.is_broken() => in_use.agent().connect_port(port).await?,
            other => other?,
        };
        Ok(Tunnel::new(tunnel))
    }
}
