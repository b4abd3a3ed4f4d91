//! The installation that uses a store. Two of them would remove each other's packs.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::Error;
use crate::format::{self, Sealer};
use crate::key::Key;
use crate::read::read_within;

const OWNER: &str = "owner";

/// Maximum size of the object in bytes. It has the id of an installation.
pub(crate) const MAX_BYTES: usize = 1024;

/// The object that names the owner.
#[derive(Debug)]
pub(crate) struct Owner {
    store: Arc<dyn ObjectStore>,
    path: Path,
    sealer: Sealer,
}

impl Owner {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, project: &Path, key: &Key) -> Self {
        Self { store, path: Self::path(project), sealer: Sealer::new(key) }
    }

    /// Where the object is.
    pub(crate) fn path(project: &Path) -> Path {
        project.clone().join(OWNER)
    }

    /// Makes `installation` the owner, if the store has none. Fails with [`Error::Owned`] if another one is.
    pub(crate) async fn claim(&self, installation: &str) -> Result<(), Error> {
        if self.check(installation).await? {
            return Ok(());
        }
        let salt = format::salt().map_err(|error| Error::System(error.into()))?;
        let sealed = self.sealer.seal(OWNER, salt, installation.as_bytes());
        let sealed = sealed.map_err(|error| Error::System(error.into()))?;
        self.store.put(&self.path, sealed.into()).await.map_err(Error::of_store(&self.path))?;
        // Another one may have written it at the same time.
        self.check(installation).await.map(drop)
    }

    /// Whether `installation` is the owner. False if there is none. Fails with [`Error::Owned`] if another one is.
    pub(crate) async fn check(&self, installation: &str) -> Result<bool, Error> {
        let found = match self.store.get(&self.path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(Error::of_store(&self.path)(error)),
        };
        let sealed = read_within(found, MAX_BYTES).await.map_err(Error::of_store(&self.path))?;
        let owner = self.sealer.open(OWNER, sealed.into()).map_err(|damage| self.damaged(damage))?;
        let owner = String::from_utf8_lossy(&owner).into_owned();
        match owner == installation {
            true => Ok(true),
            false => Err(Error::Owned { owner, object: self.path.to_string() }),
        }
    }

    fn damaged(&self, source: crate::Damage) -> Error {
        Error::Damaged { object: self.path.to_string(), source }
    }
}
