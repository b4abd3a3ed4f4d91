//! Ports of sandboxes that are published on the host, compatible with the original daemon.
//!
//! Each published port has a publisher, a container that listens on the host (`engine/publisher.rs`) and forwards its
//! connections to a socket of the daemon (`publisher_listener.rs`). The socket opens only after sandboxes are blocked from
//! reaching the published port. A publisher that died is created again with the same host port, or with another if that is
//! taken now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::publication::{Key, Publication};
use super::{Error, Previews};
use crate::egress::PublishedAt;
use crate::engine::{FoundPublisher, Published, PublisherPlan};
use crate::metrics::Repair;
use crate::model::{Refusal, Resource, Stage, Transport, limits};
use crate::service::Authorized;
use crate::service::SpecError;
use crate::service::lifecycle::Sandbox;

/// Image of publishers if the operator sets none and this one is available.
const PUBLISHER_IMAGE: &str = "alpine/socat:1.8.0.0";

impl Previews {
    /// Publishes a port of a sandbox on the host and returns the host port. `None` if the sandbox may not expose the port.
    pub async fn publish(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        port: u16,
    ) -> Result<Option<u16>, Error> {
        match self.check_offered(id, port) {
            Err(Error::Refused(Refusal::NotFound(Resource::Port))) => return Ok(None),
            other => other?,
        }
        let (previews, sandbox) = (Arc::clone(self), self.lifecycle.find(id)?);
        let work = async move { previews.publish_now(&sandbox, port).await };
        self.tasks.run_detached(work).await.map(Some)
    }

    async fn publish_now(self: &Arc<Self>, sandbox: &Arc<Sandbox>, port: u16) -> Result<u16, Error> {
        if sandbox.labels().transport != Transport::Socket {
            return Err(Error::NotPublished);
        }
        let image = self.publisher_image().await?;
        let mut published = self.publications.published.lock().await;
        // A delete sets this stage before it takes the lock to unpublish the sandbox's ports.
        if sandbox.stage() == Stage::Deleting {
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        let key = (sandbox.id().clone(), port);
        if let Some(known) = published.get(&key)
            && self.engine.published(sandbox.id(), port).await? == Some(known.at)
        {
            return Ok(known.at.host_port);
        }
        self.publish_locked(&mut published, sandbox, port, image).await
    }

    async fn publish_locked(
        self: &Arc<Self>,
        published: &mut BTreeMap<Key, Publication>,
        sandbox: &Sandbox,
        port: u16,
        image: String,
    ) -> Result<u16, Error> {
        let key = (sandbox.id().clone(), port);
        // The new publisher needs the host port of the old one.
        let before = published.remove(&key);
        let host_port = before.as_ref().map(|publication| publication.at.host_port);
        let plan = PublisherPlan { host_port, ..self.publisher_plan(sandbox, port, image) };
        match self.create_publisher(&key, &plan).await {
            Ok(publication) => {
                let host_port = publication.at.host_port;
                let restarts = before.filter(Publication::died_soon).map_or(0, |before| before.restarts + 1);
                published.insert(key, Publication { restarts, ..publication });
                info!(sandbox = %sandbox.id(), port, host_port, "published a port");
                Ok(host_port)
            }
            Err(error) => {
                // The first error is the one to report. The next sweep retries.
                let _ = self.engine.unpublish(sandbox.id(), port).await;
                let _ = self.remove_unused_network(published).await;
                self.remove_socket_dir(&key);
                Err(error)
            }
        }
    }

    /// Restarts publishers that died: those of one sandbox, or of all.
    pub(in crate::service) async fn restart_publishers(
        self: &Arc<Self>,
        only: Option<&SandboxId>,
    ) -> Result<(), Error> {
        let mut published = self.publications.published.lock().await;
        let keys: Vec<Key> =
            published.keys().filter(|(id, _)| only.is_none_or(|wanted| wanted == id)).cloned().collect();
        for (id, port) in keys {
            let Ok(sandbox) = self.lifecycle.find(&id) else { continue };
            let Some(publication) = published.get(&(id.clone(), port)) else { continue };
            // A publisher that keeps dying is restarted only by the next sweep.
            if only.is_some() && publication.died_soon() && publication.restarts >= limits::PUBLISHER_TRIES {
                continue;
            }
            // A publisher that was removed by hand stays away until the next request or the next sweep.
            if only.is_some() && !self.engine.publisher_died(&id, port).await? {
                continue;
            }
            let known = Some(publication.at);
            let is_offered = sandbox.stage() != Stage::Deleting && self.check_offered(&id, port).is_ok();
            if is_offered && self.engine.published(&id, port).await? != known {
                let image = self.publisher_image().await?;
                self.publish_locked(&mut published, &sandbox, port, image).await?;
                self.metrics.repaired(Repair::Ended);
            }
        }
        Ok(())
    }

    /// Creates a publisher. If this fails, the caller must remove what was created.
    async fn create_publisher(
        self: &Arc<Self>,
        key: &Key,
        plan: &PublisherPlan,
    ) -> Result<Publication, Error> {
        self.create_socket_dir(key)?;
        self.engine.ensure_network(&plan.network).await?;
        let at = self.engine.publish(plan).await?;
        self.open_publication(key, at)
    }

    /// Blocks sandboxes from the published port and then opens the socket. Only the engine knows the port, and only once the
    /// publisher listens. Until the socket opens, no connection gets through.
    fn open_publication(self: &Arc<Self>, key: &Key, at: Published) -> Result<Publication, Error> {
        let shut = self.egress.block_port(PublishedAt { port: at.host_port, publisher: at.address });
        let listener = self.open_listener(key)?;
        Ok(Publication { at, restarts: 0, created_at: Instant::now(), _listener: listener, _shut: shut })
    }

    fn publisher_plan(&self, sandbox: &Sandbox, port: u16, image: String) -> PublisherPlan {
        let labels = sandbox.labels();
        PublisherPlan {
            sandbox: labels.id.clone(),
            session_key: labels.spec.session_key,
            slot: labels.slot,
            port,
            image,
            network: self.lifecycle.publisher_network(),
            socket_dir: self.socket_dir(&(labels.id, port)).to_string_lossy().into_owned(),
            host_ip: self.setup.preview.publish_ip,
            host_port: None,
        }
    }

    /// Lists the published ports of a sandbox, each with its host port.
    pub async fn publications(&self, id: &Authorized<SandboxId>) -> Vec<(u16, u16)> {
        let published = self.publications.published.lock().await;
        let of = published.iter().filter(|((sandbox, _), _)| *sandbox == **id);
        of.map(|((_, port), publication)| (*port, publication.at.host_port)).collect()
    }

    /// Unpublishes all ports of a sandbox.
    pub(super) async fn unpublish_all(&self, id: &SandboxId) -> Result<(), Error> {
        let mut published = self.publications.published.lock().await;
        let keys: Vec<Key> = published.keys().filter(|(sandbox, _)| sandbox == id).cloned().collect();
        for key in &keys {
            self.engine.unpublish(&key.0, key.1).await?;
            published.remove(key);
            self.remove_socket_dir(key);
        }
        if !keys.is_empty() {
            self.remove_unused_network(&published).await?;
        }
        Ok(())
    }

    async fn remove_unused_network(&self, published: &BTreeMap<Key, Publication>) -> Result<(), Error> {
        let network = self.lifecycle.publisher_network();
        if published.is_empty() {
            self.engine.remove_networks(|name| name != network).await?;
        }
        Ok(())
    }

    /// Restores the publishers from the previous run, so that published addresses stay valid. One that hangs is created
    /// again at the next request for its port.
    pub(in crate::service) async fn restore_publishers(self: &Arc<Self>) -> Result<(), Error> {
        let mut published = self.publications.published.lock().await;
        for found in self.engine.publishers().await? {
            let key = (found.sandbox.clone(), found.port);
            if published.contains_key(&key) || self.check_offered(&key.0, key.1).is_err() {
                continue;
            }
            let at = match self.engine.published(&key.0, key.1).await {
                Ok(Some(at)) => at,
                Ok(None) => continue,
                Err(error) => {
                    warn!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not restore a published port");
                    continue;
                }
            };
            match self.open_publication(&key, at) {
                Ok(publication) => drop(published.insert(key, publication)),
                Err(error) => {
                    warn!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not open a publisher's socket");
                }
            }
        }
        drop(published);
        self.sweep_publishers().await
    }

    /// Removes unknown publishers, and those of ports that the sandbox no longer exposes.
    pub(in crate::service) async fn sweep_publishers(&self) -> Result<(), Error> {
        let mut published = self.publications.published.lock().await;
        let gone: Vec<Key> =
            published.keys().filter(|key| self.check_offered(&key.0, key.1).is_err()).cloned().collect();
        for key in gone {
            self.engine.unpublish(&key.0, key.1).await?;
            published.remove(&key);
            self.remove_socket_dir(&key);
        }
        let is_stray = |found: &FoundPublisher| !published.contains_key(&(found.sandbox.clone(), found.port));
        for found in self.engine.publishers().await?.iter().filter(|found| is_stray(found)) {
            self.engine.remove_publisher(found).await?;
            self.remove_socket_dir(&(found.sandbox.clone(), found.port));
            self.metrics.repaired(Repair::Orphan);
        }
        self.remove_unused_network(&published).await
    }

    /// Returns the image of publishers: the operator's, or the pinned one, or the sandbox image, which contains socat too.
    async fn publisher_image(&self) -> Result<String, Error> {
        let choose = || async {
            if let Some(image) = &self.setup.proxy_image {
                if !self.engine.has_image(image).await? {
                    let unavailable =
                        |source| Error::Spec(SpecError::ImageUnavailable { image: image.clone(), source });
                    self.engine.pull(image).await.map_err(unavailable)?;
                }
                return Ok(image.clone());
            }
            if self.engine.has_image(PUBLISHER_IMAGE).await? {
                return Ok(PUBLISHER_IMAGE.to_owned());
            }
            match timeout(limits::PUBLISHER_PULL, self.engine.pull(PUBLISHER_IMAGE)).await {
                Ok(Ok(())) => Ok(PUBLISHER_IMAGE.to_owned()),
                _ => {
                    info!(
                        image = self.setup.image,
                        "{PUBLISHER_IMAGE} is not available; publishing ports with the sandbox image"
                    );
                    Ok(self.setup.image.clone())
                }
            }
        };
        self.publications.image.get_or_try_init(choose).await.cloned()
    }
}
