//! The volumes: their definitions, their mounts, and which containers use them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::definition::{Definition, VolumeName};
use crate::definitions::Definitions;
use crate::fault::Fault;
use crate::layers::{Layers, Places};
use crate::limits;

/// The ids of the containers that use one volume. The lock is held while an operation on the volume runs.
///
/// It is not stored. After a restart, the first unmount of a volume unmounts it. A container that uses it keeps it,
/// because a container has a mount of its own.
type Users = Arc<Mutex<HashSet<String>>>;

/// A volume, for a list of them.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: VolumeName,
    pub(crate) mountpoint: Option<PathBuf>,
}

/// All volumes of the plugin.
#[derive(Debug)]
pub(crate) struct Volumes {
    definitions: Definitions,
    layers: Layers,
    /// The definitions are counted and added under this lock.
    adding: Mutex<()>,
    users: Mutex<HashMap<VolumeName, Users>>,
}

impl Volumes {
    /// Opens the definitions in `state`.
    pub(crate) fn open(state: &Path, places: Places) -> Result<Self, Fault> {
        let definitions = Definitions::open(state).map_err(Fault::io("open the definitions"))?;
        let layers = Layers::new(places)?;
        Ok(Self { definitions, layers, adding: Mutex::default(), users: Mutex::default() })
    }

    /// Creates a volume. Nothing is mounted yet. Idempotent.
    pub(crate) fn create(&self, name: &VolumeName, options: &BTreeMap<String, String>) -> Result<(), Fault> {
        let definition = Definition::from_options(options)?;
        let _adding = lock(&self.adding);
        self.definitions.add(name, &definition)
    }

    /// Unmounts and removes a volume. Idempotent. The engine asks only if no container has the volume.
    pub(crate) fn remove(&self, name: &VolumeName) -> Result<(), Fault> {
        let slot = self.slot(name);
        let mut users = lock(&slot);
        self.layers.unmount(name)?;
        self.definitions.remove(name)?;
        users.clear();
        Ok(())
    }

    /// Mounts a volume for a container, which `id` names. Returns where.
    pub(crate) fn mount(&self, name: &VolumeName, id: String) -> Result<PathBuf, Fault> {
        let slot = self.slot(name);
        let mut users = lock(&slot);
        if users.len() >= limits::USERS && !users.contains(&id) {
            return Err(Fault::TooManyUsers);
        }
        let definition = self.definitions.get(name)?;
        let target = self.layers.mount(name, &definition)?;
        users.insert(id);
        Ok(target)
    }

    /// Unmounts a volume if no other container uses it. Idempotent.
    pub(crate) fn unmount(&self, name: &VolumeName, id: &str) -> Result<(), Fault> {
        let slot = self.slot(name);
        let mut users = lock(&slot);
        users.remove(id);
        if users.is_empty() { self.layers.unmount(name) } else { Ok(()) }
    }

    /// Returns where a volume is mounted.
    pub(crate) fn get(&self, name: &VolumeName) -> Result<Option<PathBuf>, Fault> {
        self.definitions.get(name)?;
        self.layers.mountpoint(name)
    }

    /// Lists all volumes. One whose definition is damaged is among them, so that it can be removed.
    pub(crate) fn list(&self) -> Result<Vec<Listed>, Fault> {
        let listed = |name| Ok(Listed { mountpoint: self.layers.mountpoint(&name)?, name });
        self.definitions.names()?.into_iter().map(listed).collect()
    }

    fn slot(&self, name: &VolumeName) -> Users {
        let mut users = lock(&self.users);
        // Slots of volumes that no container uses are recreated when they are needed.
        users.retain(|_, slot| Arc::strong_count(slot) > 1 || !lock(slot).is_empty());
        Arc::clone(users.entry(name.clone()).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock was held leaves no inconsistent state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
