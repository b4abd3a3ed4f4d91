//! The data key: a random key for all objects, which the store keeps encrypted with master keys.
//!
//! It is in one object for each master key. The object has the same [format](crate::format) as all others, with a master key
//! instead of the data key. The current master key gets one at the next opening. Objects of former master keys are kept: the
//! operator may delete them after a former key became known to others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use sandboxd_model::MasterKeys;
use secrecy::ExposeSecret;

use crate::Error;
use crate::error::Damage;
use crate::format::{self, Header, Sealer};
use crate::key::{Key, KeyId};
use crate::owner::{self, Owner};
use crate::read::read_within;

const KEYS: &str = "keys";

/// Maximum size of an encrypted data key in bytes.
const MAX_BYTES: usize = 1024;

/// Maximum number of objects below `keys`. One more for each master key that was ever used.
const MAX_OBJECTS: usize = 1000;

/// Recorded facts about a store that was used before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Id of the data key.
    pub key: Option<String>,
    /// Whether snapshots need this key, so that it must not be replaced.
    pub is_needed: bool,
}

/// The encrypted data keys of a project.
#[derive(Debug)]
pub(crate) struct Keyring {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    owner: Path,
    masters: Vec<Key>,
}

/// The data keys of a store, and the master keys that open each.
type Found = BTreeMap<KeyId, BTreeSet<KeyId>>;

impl Keyring {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, project: &Path, masters: &MasterKeys) -> Self {
        let masters = masters.iter().map(|key| Key::new(*key.expose_secret())).collect();
        Self { store, folder: project.clone().join(KEYS), owner: Owner::path(project), masters }
    }

    /// The data key. A new one is made only if the store has none and no snapshot is recorded.
    pub(crate) async fn open(&self, recorded: &Recorded) -> Result<Key, Error> {
        let found = self.list().await?;
        match self.choose(&found, recorded).await? {
            Some(id) => {
                let wraps = found.get(&id).cloned().unwrap_or_default();
                let key = self.unwrap_with_any(id, &wraps).await?;
                self.rotate(&key, &wraps).await;
                Ok(key)
            }
            None => self.create().await,
        }
    }

    /// Which data key applies. `None` if one must be made.
    async fn choose(&self, found: &Found, recorded: &Recorded) -> Result<Option<KeyId>, Error> {
        let id = recorded.key.as_deref().and_then(KeyId::parse);
        match (id.filter(|id| found.contains_key(id)), &recorded.key) {
            (Some(id), _) => return Ok(Some(id)),
            (None, Some(lost)) if recorded.is_needed => {
                return Err(Error::LostKey { data_key: lost.clone() });
            }
            (None, _) => {}
        }
        // A write that was cancelled may have left one that was never used.
        let in_use = self.key_of_owner().await?.filter(|id| found.contains_key(id));
        Ok(in_use.or_else(|| found.keys().next().copied()))
    }

    /// The data key that the store's owner uses.
    async fn key_of_owner(&self) -> Result<Option<KeyId>, Error> {
        match self.store.get(&self.owner).await {
            Ok(found) => match read_within(found, owner::MAX_BYTES).await {
                Ok(owner) => Ok(Header::key_of(&owner)),
                // Opening the store reports the damage.
                Err(error) if Damage::of(&error).is_some() => Ok(None),
                Err(error) => Err(Error::of_store(&self.owner)(error)),
            },
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::of_store(&self.owner)(error)),
        }
    }

    async fn list(&self) -> Result<Found, Error> {
        let mut found = Found::new();
        let mut objects = self.store.list(Some(&self.folder));
        let mut count = 0;
        loop {
            let object = match objects.try_next().await {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(found),
                Err(error) => return Err(self.list_error(error).await),
            };
            count += 1;
            if count > MAX_OBJECTS {
                return Err(Error::Damaged { object: self.folder.to_string(), source: Damage::Length });
            }
            let parts: Vec<_> = object.location.parts().collect();
            let Some([data, master]) = parts.last_chunk() else { continue };
            let (data, master) = (KeyId::parse(data.as_ref()), KeyId::parse(master.as_ref()));
            if let (Some(data), Some(master)) = (data, master)
                && self.path(data, master) == object.location
            {
                found.entry(data).or_default().insert(master);
            }
        }
    }

    /// The error of a list does not say whether the access key was rejected. That of an object does.
    async fn list_error(&self, error: object_store::Error) -> Error {
        match self.store.head(&self.folder).await.map_err(Error::of_store(&self.folder)) {
            Err(denied @ Error::Denied { .. }) => denied,
            _ => Error::of_store(&self.folder)(error),
        }
    }

    async fn unwrap_with_any(&self, id: KeyId, wraps: &BTreeSet<KeyId>) -> Result<Key, Error> {
        match self.masters.iter().find(|master| wraps.contains(&master.id())) {
            Some(master) => self.unwrap(id, master).await,
            None => Err(Error::WrongKey {
                data_key: id.to_string(),
                needed: joined(wraps),
                given: joined(&self.masters.iter().map(Key::id).collect::<Vec<_>>()),
            }),
        }
    }

    async fn unwrap(&self, id: KeyId, master: &Key) -> Result<Key, Error> {
        let path = self.path(id, master.id());
        let damaged = |source| Error::Damaged { object: path.to_string(), source };
        let found = self.store.get(&path).await.map_err(Error::of_store(&path))?;
        let sealed = read_within(found, MAX_BYTES).await.map_err(Error::of_store(&path))?;
        let opened = Sealer::new(master).open(&id.to_string(), sealed.into()).map_err(damaged)?;
        let key = Key::new(opened.try_into().map_err(|_| damaged(Damage::Length))?);
        if key.id() == id { Ok(key) } else { Err(damaged(Damage::OtherKey)) }
    }

    /// Encrypts the data key with the current master key too. If that fails, the former one still opens it.
    async fn rotate(&self, key: &Key, wraps: &BTreeSet<KeyId>) {
        let Some(current) = self.masters.first().filter(|current| !wraps.contains(&current.id())) else {
            return;
        };
        match self.wrap(key, current).await {
            Ok(()) => tracing::info!(
                data_key = %key.id(),
                master_key = %current.id(),
                "the key of the snapshots' store is now protected by the first key in the key file"
            ),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the key of the snapshots' store could not be protected by the first key in the key file"
            ),
        }
    }

    async fn create(&self) -> Result<Key, Error> {
        let key = Key::random().map_err(|error| Error::System(error.into()))?;
        // There is always one.
        if let Some(current) = self.masters.first() {
            self.wrap(&key, current).await?;
        }
        tracing::info!(data_key = %key.id(), "the snapshots' store is new; its key was made");
        Ok(key)
    }

    /// Writes the data key encrypted with a master key, and reads it back.
    async fn wrap(&self, key: &Key, master: &Key) -> Result<(), Error> {
        let path = self.path(key.id(), master.id());
        let salt = format::salt().map_err(|error| Error::System(error.into()))?;
        let sealed = Sealer::new(master).seal(&key.id().to_string(), salt, key.secret());
        let sealed = sealed.map_err(|error| Error::System(error.into()))?;
        self.store.put(&path, sealed.into()).await.map_err(Error::of_store(&path))?;
        self.unwrap(key.id(), master).await.map(drop)
    }

    fn path(&self, data: KeyId, master: KeyId) -> Path {
        self.folder.clone().join(data.to_string()).join(master.to_string())
    }
}

fn joined<'a>(ids: impl IntoIterator<Item = &'a KeyId>) -> String {
    ids.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
