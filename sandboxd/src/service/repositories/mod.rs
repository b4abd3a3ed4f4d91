//! Repositories that were fetched, and sandboxes with their files.
//!
//! A request names a repository and perhaps a version; [`resolve`] finds the commit, and [`directories`] does so for a directory
//! that the operator allows, or finds its files. [`fetch`] gets exactly that commit, once,
//! and keeps its files as a snapshot that no principal sees. A sandbox with a repository is then a sandbox with a snapshot.
//! So a large repository is shared as a base, and a small one is copied.
//!
//! A token never reaches a sandbox. Files that were fetched with one are kept apart from those that were fetched without, and
//! are only for requests that may use the token now.

mod directories;
mod fetch;
mod helper;
mod kept;
mod known_files;
mod look_ups;
mod open;
mod request;
mod resolve;
mod upkeep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, Shared};
use tokio::sync::RwLock;

pub use self::open::{Opened, RepositoryFiles};
pub use self::request::RepositoryRequest;

use self::kept::Kept;
use self::known_files::KnownFiles;
use self::look_ups::LookUps;
use super::egress::Egress;
use super::lifecycle::Lifecycle;
use super::quotas::Turns;
use super::snapshots::Snapshots;
use super::tasks::Tasks;
use super::{Context, Error};
use crate::git::Client;
use crate::model::repository::{RepositoryKey, RepositoryRecord, RepositorySettings};
use crate::model::{Owner, ProjectName, limits};
use crate::store::Store;

/// A fetch that several requests wait for.
type Fetch = Shared<BoxFuture<'static, Result<RepositoryRecord, Arc<Error>>>>;

/// Fetches repositories, keeps them, and opens sandboxes with their files.
#[derive(Debug)]
pub struct Repositories {
    lifecycle: Arc<Lifecycle>,
    snapshots: Arc<Snapshots>,
    store: Arc<Store>,
    tasks: Tasks,
    settings: RepositorySettings,
    client: Client,
    look_ups: LookUps,
    known_files: KnownFiles,
    kept: Kept,
    /// The fetches that run. Each is charged to a project, so another project's request begins its own.
    fetches: Mutex<HashMap<(ProjectName, RepositoryKey), Fetch>>,
    /// One permit for each fetch that may run at the same time.
    turns: Turns,
    /// Shared by those who make a snapshot that is not recorded yet. Exclusive for the removal of unrecorded ones.
    recording: RwLock<()>,
}

impl Repositories {
    pub(in crate::service) async fn new(
        context: &Context,
        egress: &Arc<Egress>,
        lifecycle: &Arc<Lifecycle>,
        snapshots: &Arc<Snapshots>,
    ) -> Result<Self, Error> {
        let settings = context.setup.repositories.clone();
        let ca_bundle = context.setup.egress.ca_bundle.as_ref();
        Ok(Self {
            client: Client::new(Arc::clone(egress.gate()), ca_bundle, settings.tokens.clone()),
            settings,
            lifecycle: Arc::clone(lifecycle),
            snapshots: Arc::clone(snapshots),
            kept: Kept::new(context.store.repositories().await?),
            store: Arc::clone(&context.store),
            tasks: context.tasks.clone(),
            look_ups: LookUps::default(),
            known_files: KnownFiles::default(),
            fetches: Mutex::default(),
            turns: Turns::new(limits::MAX_FETCHES),
            recording: RwLock::default(),
        })
    }

    fn fetches(&self) -> MutexGuard<'_, HashMap<(ProjectName, RepositoryKey), Fetch>> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom the snapshots of repositories belong to.
fn own() -> Owner {
    Owner { project: ProjectName::repositories(), subject: None }
}
