//! Sets of Python packages that were resolved, and sandboxes that have them.
//!
//! A request names packages; [`resolve`] finds versions that fit together and unpacks their wheels, once for all sandboxes with
//! the same image. The files become a snapshot that no principal sees. So sandboxes share a large set as a base, and a context
//! of a sandbox that was created without it gets a copy.
//!
//! The snapshot is the only record of a set: its name begins with the key. So no crash leaves one without the other.

mod add;
mod create;
mod kept;
mod resolve;
mod upkeep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, Shared};
use tokio::sync::RwLock;

use self::kept::{Kept, KeptSet};
use super::egress::Egress;
use super::lifecycle::Lifecycle;
use super::quotas::Turns;
use super::snapshots::Snapshots;
use super::tasks::Tasks;
use super::{Context, Error, PackageError};
use crate::engine::{self, Engine};
use crate::git::Client;
use crate::model::packages::{PackageSetKey, PackageSettings};
use crate::model::{NetworkMode, NetworkPolicy, Owner, ProjectName, SnapshotRecord, limits};

/// A resolution that several requests wait for.
type Resolution = Shared<BoxFuture<'static, Result<KeptSet, Arc<Error>>>>;

/// Resolves sets of packages, keeps them, and gives them to sandboxes.
#[derive(Debug)]
pub struct Packages {
    lifecycle: Arc<Lifecycle>,
    snapshots: Arc<Snapshots>,
    egress: Arc<Egress>,
    engine: Engine,
    tasks: Tasks,
    settings: PackageSettings,
    /// Tag of the image of sandboxes that name none.
    image: String,
    client: Client,
    kept: Kept,
    /// The resolutions that run. Each is charged to a project, so another project's request begins its own.
    resolutions: Mutex<HashMap<(ProjectName, PackageSetKey), Resolution>>,
    /// One permit for each resolution that may run at the same time.
    turns: Turns,
    /// Shared by those who make a snapshot that is not kept yet. Exclusive for the removal of others.
    recording: RwLock<()>,
}

impl Packages {
    pub(in crate::service) async fn new(
        context: &Context,
        egress: &Arc<Egress>,
        lifecycle: &Arc<Lifecycle>,
        snapshots: &Arc<Snapshots>,
    ) -> Result<Self, Error> {
        let settings = context.setup.packages.clone();
        let ca_bundle = context.setup.egress.ca_bundle.as_ref();
        Ok(Self {
            client: Client::new(Arc::clone(egress.gate()), ca_bundle, settings.credentials.clone()),
            settings,
            image: context.setup.image.clone(),
            lifecycle: Arc::clone(lifecycle),
            kept: Kept::new(all_of(snapshots).await?),
            snapshots: Arc::clone(snapshots),
            egress: Arc::clone(egress),
            engine: context.engine.clone(),
            tasks: context.tasks.clone(),
            resolutions: Mutex::default(),
            turns: Turns::new(limits::MAX_RESOLUTIONS),
            recording: RwLock::default(),
        })
    }

    /// Fails if packages are turned off, or if a sandbox with this policy must not reach the index: then it must not get
    /// through the daemon what it could not get itself.
    fn check_policy(&self, policy: &NetworkPolicy) -> Result<(), Error> {
        if self.settings.kept_bytes == 0 {
            return Err(PackageError::Off.into());
        }
        let index = &self.settings.index;
        let is_open = policy.mode == NetworkMode::Open;
        match self.egress.gate().judge(policy, index.host(), index.port()) {
            Err(_) if !is_open => Err(PackageError::NotAllowed { host: index.host().to_string() }.into()),
            _ => Ok(()),
        }
    }

    /// What tells images apart. An image that is not pulled yet has only its name.
    async fn image_id(&self, image: Option<&str>) -> Result<String, Error> {
        let image = image.unwrap_or(&self.image);
        match self.engine.image_id(image).await {
            Err(engine::Error::Absent { .. }) => Ok(image.to_owned()),
            found => Ok(found?),
        }
    }

    fn resolutions(&self) -> MutexGuard<'_, HashMap<(ProjectName, PackageSetKey), Resolution>> {
        self.resolutions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the snapshots of sets belong to.
fn own() -> Owner {
    Owner { project: ProjectName::packages(), subject: None }
}

/// The snapshots of all sets.
async fn all_of(snapshots: &Snapshots) -> Result<Vec<SnapshotRecord>, Error> {
    let (owner, mut all, mut before) = (own(), Vec::new(), None);
    loop {
        let page = snapshots.list(&owner, None, before.as_ref(), limits::MAX_SNAPSHOT_PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        before = Some(last.cursor());
        all.extend(page);
    }
}
