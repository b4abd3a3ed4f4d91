//! Ports of sandboxes that are published on the host, as the original did it.
//!
//! For each there is a container that listens (`engine/publisher.rs`) and a socket of ours that it passes its
//! connections on to: its door (`publisher_door.rs`), which opens when the port is shut to other sandboxes. A publisher that died
//! is made again with the port of the host that it had, or another where somebody else has that now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use sandbox_api::SandboxId;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;
use tokio_util::sync::DropGuard;
use tracing::{info, warn};

use super::publisher_listener::Key;
use super::{Error, Previews};
use crate::egress::{KeptShut, PublishedAt};
use crate::engine::{FoundPublisher, Published, PublisherPlan};
use crate::metrics::Repair;
use crate::model::{Refusal, Resource, Stage, Transport, limits};
use crate::service::lifecycle::Sandbox;

/// What publishes where the operator names no image, and can be had.
const PUBLISHER_IMAGE: &str = "alpine/socat:1.8.0.0";

/// What is published.
#[derive(Debug, Default)]
pub(super) struct Publications {
    /// Held while a port is published, so that two who ask get one.
    held: Mutex<BTreeMap<Key, Publication>>,
    image: OnceCell<String>,
}

#[derive(Debug)]
struct Publication {
    at: Published,
    /// How often it was made again in a row, each time soon after it was made.
    revived: u32,
    made: Instant,
    /// Closes the door.
    _listener: DropGuard,
    _shut: KeptShut,
}

impl Publication {
    /// Whether it would have died soon after it was made, if it died now.
    fn died_soon(&self) -> bool {
        self.made.elapsed() < limits::PUBLISHER_LIFE
    }
}

impl Previews {
    /// Publishes a port of a sandbox on the host; the port there. `None` where the sandbox may not offer it.
    pub async fn publish(self: &Arc<Self>, id: &SandboxId, port: u16) -> Result<Option<u16>, Error> {
        match self.offers(id, port) {
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
        let mut held = self.publications.held.lock().await;
        // Whoever deletes it says so before it comes here to take back what is published.
        if sandbox.stage() == Stage::Deleting {
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        let key = (sandbox.id().clone(), port);
        if let Some(there) = held.get(&key)
            && self.engine.published(sandbox.id(), port).await? == Some(there.at)
        {
            return Ok(there.at.host_port);
        }
        self.publish_held(&mut held, sandbox, port, image).await
    }

    async fn publish_held(
        self: &Arc<Self>,
        held: &mut BTreeMap<Key, Publication>,
        sandbox: &Sandbox,
        port: u16,
        image: String,
    ) -> Result<u16, Error> {
        let key = (sandbox.id().clone(), port);
        // What is made next has its place.
        let before = held.remove(&key);
        let host_port = before.as_ref().map(|publication| publication.at.host_port);
        let plan = PublisherPlan { host_port, ..self.publisher_plan(sandbox, port, image) };
        match self.make_publisher(&key, &plan).await {
            Ok(publication) => {
                let host_port = publication.at.host_port;
                let revived = before.filter(Publication::died_soon).map_or(0, |before| before.revived + 1);
                held.insert(key, Publication { revived, ..publication });
                info!(sandbox = %sandbox.id(), port, host_port, "published a port");
                Ok(host_port)
            }
            Err(error) => {
                // The first error is the one to tell; the next sweep tries again.
                let _ = self.engine.unpublish(sandbox.id(), port).await;
                let _ = self.tidy_publish_network(held).await;
                self.remove_socket_dir(&key);
                Err(error)
            }
        }
    }

    /// Makes publishers again that died: those of one sandbox, or all.
    pub(in crate::service) async fn revive_publishers(
        self: &Arc<Self>,
        of: Option<&SandboxId>,
    ) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let keys: Vec<Key> =
            held.keys().filter(|(id, _)| of.is_none_or(|wanted| wanted == id)).cloned().collect();
        for (id, port) in keys {
            let Ok(sandbox) = self.lifecycle.find(&id) else { continue };
            let Some(publication) = held.get(&(id.clone(), port)) else { continue };
            // One that does not live is tried again by the next sweep only.
            if of.is_some() && publication.died_soon() && publication.revived >= limits::PUBLISHER_TRIES {
                continue;
            }
            // Whoever removes one wants it gone, and is left alone until somebody asks for it or the next sweep.
            if of.is_some() && !self.engine.publisher_died(&id, port).await? {
                continue;
            }
            let there = Some(publication.at);
            let is_offered = sandbox.stage() != Stage::Deleting && self.offers(&id, port).is_ok();
            if is_offered && self.engine.published(&id, port).await? != there {
                let image = self.publisher_image().await?;
                self.publish_held(&mut held, &sandbox, port, image).await?;
                self.metrics.repaired(Repair::Ended);
            }
        }
        Ok(())
    }

    /// What a failure leaves is the caller's to remove.
    async fn make_publisher(self: &Arc<Self>, key: &Key, plan: &PublisherPlan) -> Result<Publication, Error> {
        self.make_socket_dir(key)?;
        self.engine.ensure_network(&plan.network).await?;
        let at = self.engine.publish(plan).await?;
        self.open_publication(key, at)
    }

    /// Which port it is only the engine says, when its publisher listens: until it is shut to sandboxes nobody gets through.
    fn open_publication(self: &Arc<Self>, key: &Key, at: Published) -> Result<Publication, Error> {
        let shut = self.egress.keep_shut(PublishedAt { port: at.host_port, publisher: at.address });
        let listener = self.open_listener(key)?;
        Ok(Publication { at, revived: 0, made: Instant::now(), _listener: listener, _shut: shut })
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
            door_dir: self.socket_dir(&(labels.id, port)).to_string_lossy().into_owned(),
            host_ip: self.setup.preview.publish_ip,
            host_port: None,
        }
    }

    /// What is published of a sandbox: ports of it and of the host.
    pub async fn publications(&self, id: &SandboxId) -> Vec<(u16, u16)> {
        let held = self.publications.held.lock().await;
        let of = held.iter().filter(|((sandbox, _), _)| sandbox == id);
        of.map(|((_, port), publication)| (*port, publication.at.host_port)).collect()
    }

    /// Takes back everything that is published of a sandbox.
    pub(super) async fn unpublish_all(&self, id: &SandboxId) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let keys: Vec<Key> = held.keys().filter(|(sandbox, _)| sandbox == id).cloned().collect();
        for key in &keys {
            self.engine.unpublish(&key.0, key.1).await?;
            held.remove(key);
            self.remove_socket_dir(key);
        }
        if !keys.is_empty() {
            self.tidy_publish_network(&held).await?;
        }
        Ok(())
    }

    async fn tidy_publish_network(&self, held: &BTreeMap<Key, Publication>) -> Result<(), Error> {
        let network = self.lifecycle.publisher_network();
        if held.is_empty() {
            self.engine.remove_networks(|name| name != network).await?;
        }
        Ok(())
    }

    /// Takes back the publishers of before: whoever has their address goes on. One that hangs is made again when
    /// somebody asks for it.
    pub(in crate::service) async fn restore_publishers(self: &Arc<Self>) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        for found in self.engine.publishers().await? {
            let key = (found.sandbox.clone(), found.port);
            if held.contains_key(&key) || self.offers(&key.0, key.1).is_err() {
                continue;
            }
            let at = match self.engine.published(&key.0, key.1).await {
                Ok(Some(at)) => at,
                Ok(None) => continue,
                Err(error) => {
                    warn!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not take back a published port");
                    continue;
                }
            };
            match self.open_publication(&key, at) {
                Ok(publication) => drop(held.insert(key, publication)),
                Err(error) => {
                    warn!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not open a publisher's door");
                }
            }
        }
        drop(held);
        self.sweep_publishers().await
    }

    /// Removes publishers that nobody holds, and those of ports that are not offered any more.
    pub(in crate::service) async fn sweep_publishers(&self) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let gone: Vec<Key> = held.keys().filter(|key| self.offers(&key.0, key.1).is_err()).cloned().collect();
        for key in gone {
            self.engine.unpublish(&key.0, key.1).await?;
            held.remove(&key);
            self.remove_socket_dir(&key);
        }
        let is_stray = |found: &FoundPublisher| !held.contains_key(&(found.sandbox.clone(), found.port));
        for found in self.engine.publishers().await?.iter().filter(|found| is_stray(found)) {
            self.engine.remove_publisher(found).await?;
            self.remove_socket_dir(&(found.sandbox.clone(), found.port));
            self.metrics.repaired(Repair::Orphan);
        }
        self.tidy_publish_network(&held).await
    }

    /// The operator's choice, or the pinned one, or the sandbox image, which has socat as well.
    async fn publisher_image(&self) -> Result<String, Error> {
        let choose = || async {
            if let Some(image) = &self.setup.proxy_image {
                if !self.engine.has_image(image).await? {
                    let unavailable = |source| Error::ImageUnavailable { image: image.clone(), source };
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
                        "{PUBLISHER_IMAGE} cannot be had; the sandbox image publishes ports"
                    );
                    Ok(self.setup.image.clone())
                }
            }
        };
        self.publications.image.get_or_try_init(choose).await.cloned()
    }
}
