//! The store of chunks: where its parts meet.

use std::collections::HashMap;
use std::path::Path as FsPath;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use snapshot_format::Hash;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cache::TreeCache;
use crate::lease::Leases;
use crate::local::LocalStore;
use crate::pack::SealedPack;
use crate::path::{PACKS, pack_path};
use crate::{Error, Index};

/// How long a pack whose recording failed counts as under way. The index may still commit what it reported as failed.
const SETTLE: Duration = Duration::from_secs(60 * 60);

/// Chunks in packs of an object store, and other objects beside them. Clones share everything.
#[derive(Debug, Clone)]
pub struct Packs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    index: Arc<dyn Index>,
    leases: Arc<Leases>,
    cache: TreeCache,
    /// Packs that are stored and may not be recorded yet, and since when.
    under_way: Mutex<HashMap<Hash, Instant>>,
    /// A sweep removes packs that a check has seen and is about to record, so one of them works at a time.
    maintenance: Semaphore,
    has_collected: AtomicBool,
    /// How often a check has removed chunks from the index, whether they are in use or not.
    losses: AtomicU64,
}

impl Packs {
    /// Opens the chunks in `store`, whose changes must be durable when its calls return. Nothing else may write below
    /// `packs` and `quarantine`.
    ///
    /// If the store has packs and the index is new, [`Self::is_complete`] is false: chunks are missing until
    /// [`Self::check`] has rebuilt the index.
    pub async fn open(store: Arc<dyn ObjectStore>, index: Arc<dyn Index>) -> Result<Self, Error> {
        let generation = index.generation().await.map_err(Error::Index)?;
        let leases = Arc::new(Leases::new(generation));
        let inner = Inner {
            store,
            index,
            leases,
            cache: TreeCache::default(),
            under_way: Mutex::default(),
            maintenance: Semaphore::new(1),
            has_collected: AtomicBool::new(false),
            losses: AtomicU64::new(0),
        };
        let packs = Self { inner: Arc::new(inner) };
        if !packs.is_complete().await? && packs.has_no_packs().await? {
            packs.index().set_complete().await.map_err(Error::Index)?;
        }
        Ok(packs)
    }

    /// Opens or creates the chunks in the directory `root`, which must be on a local file system. Its parent must exist. Only
    /// one process may use it at a time.
    pub async fn open_dir(root: &FsPath, index: Arc<dyn Index>) -> Result<Self, Error> {
        let root = root.to_owned();
        let store = crate::error::blocking(move || LocalStore::open(&root)).await??;
        Self::open(Arc::new(store), index).await
    }

    /// Whether the index lists all packs of the store.
    pub async fn is_complete(&self) -> Result<bool, Error> {
        self.index().is_complete().await.map_err(Error::Index)
    }

    /// Size of all packs in bytes, also of those that a collection will remove.
    pub async fn stored_bytes(&self) -> Result<u64, Error> {
        self.index().stored_bytes().await.map_err(Error::Index)
    }

    async fn has_no_packs(&self) -> Result<bool, Error> {
        let mut packs = self.store().list(Some(&Path::from(PACKS)));
        Ok(packs.try_next().await.map_err(Error::of_store(PACKS))?.is_none())
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.inner.store
    }

    pub(crate) fn index(&self) -> &dyn Index {
        &*self.inner.index
    }

    pub(crate) fn cache(&self) -> &TreeCache {
        &self.inner.cache
    }

    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.inner.leases
    }

    /// Whether no collection has begun since the opening. Later calls return false.
    pub(crate) fn take_first_collection(&self) -> bool {
        !self.inner.has_collected.swap(true, Ordering::Relaxed)
    }

    /// How often chunks that may be in use were removed. A writer whose chunks were found before a loss may miss some.
    pub(crate) fn losses(&self) -> u64 {
        self.inner.losses.load(Ordering::SeqCst)
    }

    /// Removes a pack that is damaged or missing, and its chunks, from the index.
    pub(crate) async fn lose_pack(&self, pack: Hash) -> Result<(), Error> {
        let removed = self.index().remove_pack(pack, None).await;
        self.inner.losses.fetch_add(1, Ordering::SeqCst);
        removed.map(drop).map_err(Error::Index)
    }

    /// Waits until no other maintenance is running.
    pub(crate) async fn maintenance(&self) -> Result<SemaphorePermit<'_>, Error> {
        let permit = self.inner.maintenance.acquire().await;
        permit.map_err(|error| Error::System(std::io::Error::other(error)))
    }

    /// Stores the object of a pack, which is durable when this returns. The caller then records it in the index and calls
    /// [`Self::settle`].
    pub(crate) async fn put_pack(&self, pack: &SealedPack) -> Result<(), Error> {
        let name = pack.info.name;
        self.under_way().insert(name, Instant::now());
        let path = pack_path(name);
        let put = self.store().put(&path, PutPayload::from_bytes(pack.bytes.clone())).await;
        put.map(drop).map_err(|source| {
            // It will not be recorded, so it may be removed if the store has it.
            self.settle(name);
            Error::of_store(&path)(source)
        })
    }

    /// Notes that a pack is recorded.
    pub(crate) fn settle(&self, pack: Hash) {
        self.under_way().remove(&pack);
    }

    /// Whether a pack may be recorded yet.
    pub(crate) fn is_under_way(&self, pack: Hash) -> bool {
        let mut packs = self.under_way();
        packs.retain(|_, since| since.elapsed() < SETTLE);
        packs.contains_key(&pack)
    }

    /// Deletes an object. Succeeds if it does not exist.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), Error> {
        match self.store().delete(path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::of_store(path)(error)),
        }
    }

    /// Every change of the map is complete, so a panic elsewhere leaves it valid.
    fn under_way(&self) -> MutexGuard<'_, HashMap<Hash, Instant>> {
        self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
