//! Ports of sandboxes that are published on the host, as the original did it.
//!
//! For each there is a container that listens (`engine/publisher.rs`) and a socket of ours that it passes its
//! connections on to: its door. Whatever comes through the door goes to the port on the sandbox's loopback, and wakes the
//! sandbox where it was parked. A publisher that died is made again with the port of the host that it had, or another
//! where somebody else has that now.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use sandbox_api::SandboxId;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info, warn};

use super::registry::Sandbox;
use super::{Error, Service};
use crate::engine::{DOOR_NAME, FoundPublisher, PublisherPlan};
use crate::metrics::Repair;
use crate::model::{Stage, Transport, limits};

/// What publishes where the operator names no image, and can be had.
const PUBLISHER_IMAGE: &str = "alpine/socat:1.8.0.0";

/// The doors' place in the run dir.
const DOORS_DIR: &str = "doors";

/// Which port of which sandbox.
type Key = (SandboxId, u16);

/// What is published.
#[derive(Debug, Default)]
pub(super) struct Publications {
    /// Held while a port is published, so that two who ask get one.
    held: Mutex<BTreeMap<Key, Publication>>,
    image: OnceCell<String>,
}

#[derive(Debug)]
struct Publication {
    host_port: u16,
    /// How often it was made again in a row, each time soon after it was made.
    revived: u32,
    made: Instant,
    /// Closes the door.
    _door: DropGuard,
}

impl Publication {
    /// Whether it would have died soon after it was made, if it died now.
    fn died_soon(&self) -> bool {
        self.made.elapsed() < limits::PUBLISHER_LIFE
    }
}

impl Service {
    /// Publishes a port of a sandbox on the host; the port there. `None` where the sandbox may not offer it.
    pub async fn publish(self: &Arc<Self>, id: &SandboxId, port: u16) -> Result<Option<u16>, Error> {
        match self.offers(id, port) {
            Err(Error::NotFound { resource: "port" }) => return Ok(None),
            other => other?,
        }
        let (service, sandbox) = (Arc::clone(self), self.find(id)?);
        let task = self.tasks.spawn(async move { service.publish_now(&sandbox, port).await });
        task.await.map_err(|source| Error::Task { source })?.map(Some)
    }

    async fn publish_now(self: &Arc<Self>, sandbox: &Arc<Sandbox>, port: u16) -> Result<u16, Error> {
        if sandbox.labels().transport != Transport::Socket {
            return Err(Error::NotPublished);
        }
        let image = self.publisher_image().await?;
        let mut held = self.publications.held.lock().await;
        // Whoever deletes it says so before it comes here to take back what is published.
        if sandbox.stage() == Stage::Deleting {
            return Err(Error::NotFound { resource: "sandbox" });
        }
        let key = (sandbox.id().clone(), port);
        if let Some(there) = held.get(&key)
            && self.engine.published(sandbox.id(), port).await? == Some(there.host_port)
        {
            return Ok(there.host_port);
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
        // The old door closes first: the new one has its place.
        let before = held.remove(&key);
        let host_port = before.as_ref().map(|publication| publication.host_port);
        let plan = PublisherPlan { host_port, ..self.publisher_plan(sandbox, port, image) };
        match self.make_publisher(&key, &plan).await {
            Ok(publication) => {
                let host_port = publication.host_port;
                let revived = before.filter(Publication::died_soon).map_or(0, |before| before.revived + 1);
                held.insert(key, Publication { revived, ..publication });
                info!(sandbox = %sandbox.id(), port, host_port, "published a port");
                Ok(host_port)
            }
            Err(error) => {
                // The first error is the one to tell; the next sweep tries again.
                let _ = self.engine.unpublish(sandbox.id(), port).await;
                let _ = self.tidy_publish_network(held).await;
                self.remove_door(&key);
                Err(error)
            }
        }
    }

    /// Makes publishers again that died: those of one sandbox, or all.
    pub(super) async fn revive_publishers(self: &Arc<Self>, of: Option<&SandboxId>) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let keys: Vec<Key> =
            held.keys().filter(|(id, _)| of.is_none_or(|wanted| wanted == id)).cloned().collect();
        for (id, port) in keys {
            let Ok(sandbox) = self.find(&id) else { continue };
            let Some(publication) = held.get(&(id.clone(), port)) else { continue };
            // One that does not live is tried again by the next sweep only.
            if of.is_some() && publication.died_soon() && publication.revived >= limits::PUBLISHER_TRIES {
                continue;
            }
            // Whoever removes one wants it gone, and is left alone until somebody asks for it or the next sweep.
            if of.is_some() && !self.engine.publisher_died(&id, port).await? {
                continue;
            }
            let there = Some(publication.host_port);
            let is_offered = sandbox.stage() != Stage::Deleting && self.offers(&id, port).is_ok();
            if is_offered && self.engine.published(&id, port).await? != there {
                let image = self.publisher_image().await?;
                self.publish_held(&mut held, &sandbox, port, image).await?;
                self.repaired(Repair::Ended);
            }
        }
        Ok(())
    }

    /// What a failure leaves is the caller's to remove.
    async fn make_publisher(self: &Arc<Self>, key: &Key, plan: &PublisherPlan) -> Result<Publication, Error> {
        let door = self.open_publishers_door(key)?;
        self.engine.ensure_network(&plan.network).await?;
        let host_port = self.engine.publish(plan).await?;
        Ok(Publication { host_port, revived: 0, made: Instant::now(), _door: door })
    }

    /// The publishers' network of this instance.
    pub(super) fn publish_network(&self) -> String {
        format!("{}-{}", self.setup.network_name, self.instance.id())
    }

    fn publisher_plan(&self, sandbox: &Sandbox, port: u16, image: String) -> PublisherPlan {
        let labels = sandbox.labels();
        PublisherPlan {
            sandbox: labels.id.clone(),
            session_key: labels.spec.session_key,
            slot: labels.slot,
            port,
            image,
            network: self.publish_network(),
            door_dir: self.door_dir(&(labels.id, port)).to_string_lossy().into_owned(),
            host_ip: self.setup.preview.publish_ip,
            host_port: None,
        }
    }

    /// What is published of a sandbox: ports of it and of the host.
    pub async fn publications(&self, id: &SandboxId) -> Vec<(u16, u16)> {
        let held = self.publications.held.lock().await;
        let of = held.iter().filter(|((sandbox, _), _)| sandbox == id);
        of.map(|((_, port), publication)| (*port, publication.host_port)).collect()
    }

    /// Takes back everything that is published of a sandbox.
    pub(super) async fn unpublish_all(&self, id: &SandboxId) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let keys: Vec<Key> = held.keys().filter(|(sandbox, _)| sandbox == id).cloned().collect();
        for key in &keys {
            self.engine.unpublish(&key.0, key.1).await?;
            held.remove(key);
            self.remove_door(key);
        }
        if !keys.is_empty() {
            self.tidy_publish_network(&held).await?;
        }
        Ok(())
    }

    async fn tidy_publish_network(&self, held: &BTreeMap<Key, Publication>) -> Result<(), Error> {
        let network = self.publish_network();
        if held.is_empty() {
            self.engine.remove_networks(|name| name != network).await?;
        }
        Ok(())
    }

    /// Takes back the publishers of before: whoever has their address goes on.
    pub(super) async fn take_publishers(self: &Arc<Self>) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        for found in self.engine.publishers().await? {
            let key = (found.sandbox.clone(), found.port);
            if self.offers(&key.0, key.1).is_err() {
                continue;
            }
            let Some(host_port) = self.engine.published(&key.0, key.1).await? else { continue };
            match self.open_publishers_door(&key) {
                Ok(door) => {
                    drop(held.insert(
                        key,
                        Publication { host_port, revived: 0, made: Instant::now(), _door: door },
                    ))
                }
                Err(error) => {
                    warn!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "could not open a publisher's door");
                }
            }
        }
        drop(held);
        self.sweep_publishers().await
    }

    /// Removes publishers that nobody holds, and those of ports that are not offered any more.
    pub(super) async fn sweep_publishers(&self) -> Result<(), Error> {
        let mut held = self.publications.held.lock().await;
        let gone: Vec<Key> = held.keys().filter(|key| self.offers(&key.0, key.1).is_err()).cloned().collect();
        for key in gone {
            self.engine.unpublish(&key.0, key.1).await?;
            held.remove(&key);
            self.remove_door(&key);
        }
        let is_stray = |found: &FoundPublisher| !held.contains_key(&(found.sandbox.clone(), found.port));
        for found in self.engine.publishers().await?.iter().filter(|found| is_stray(found)) {
            self.engine.remove_publisher(found).await?;
            self.remove_door(&(found.sandbox.clone(), found.port));
            self.repaired(Repair::Orphan);
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

    fn door_dir(&self, (id, port): &Key) -> PathBuf {
        self.setup.run_dir.join(DOORS_DIR).join(format!("{id}-{port}"))
    }

    fn remove_door(&self, key: &Key) {
        if let Err(error) = std::fs::remove_dir_all(self.door_dir(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(sandbox = %key.0, port = key.1, %error, "could not remove a publisher's door");
        }
    }

    fn open_publishers_door(self: &Arc<Self>, key: &Key) -> Result<DropGuard, Error> {
        let dir = self.door_dir(key);
        let open = || {
            DirBuilder::new().recursive(true).mode(0o755).create(&dir)?;
            // Whatever the umask: the publisher's user must get in, and nobody else gets past the run dir.
            std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
            let path = dir.join(DOOR_NAME);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&path)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        let listener = open().map_err(|source| Error::RunDir { source })?;
        // Closed with the daemon, too: whoever attends it holds the service.
        let closed = self.watching.child_token();
        tokio::spawn(attend(Arc::clone(self), key.clone(), listener, closed.clone()));
        Ok(closed.drop_guard())
    }

    /// Carries a connection to the port, for as long as it lasts.
    async fn carry(self: &Arc<Self>, (id, port): &Key, mut visitor: UnixStream) -> Result<(), Error> {
        self.offers(id, *port)?;
        // It is in use for as long as the connection is open, because nothing else tells whether somebody is there.
        let (_, _, _mark) = self.in_use(id).await?.let_go();
        let mut tunnel = self.connect_port(id, *port).await?;
        if let Err(error) = copy_bidirectional(&mut visitor, &mut tunnel).await {
            debug!(sandbox = %id, port, %error, "a connection to a published port broke");
        }
        Ok(())
    }
}

/// Lets connections in until the door is closed.
async fn attend(service: Arc<Service>, key: Key, listener: UnixListener, closed: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits::MAX_PUBLISHED_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = closed.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((visitor, _)) = accepted else {
            // Out of descriptors, most likely: others must give some back first.
            tokio::time::sleep(limits::KEEPER_TICK).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (service, key, closed) = (Arc::clone(&service), key.clone(), closed.clone());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                carried = service.carry(&key, visitor) => {
                    if let Err(error) = carried {
                        debug!(sandbox = %key.0, port = key.1, error = &error as &dyn std::error::Error, "a published port cannot be reached");
                    }
                }
                () = closed.cancelled() => {}
            }
        });
    }
}
