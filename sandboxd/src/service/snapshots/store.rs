//! The store of snapshots: a directory in the state dir, or a remote store.
//!
//! A remote store may be unavailable at the start, or its key may be wrong. Then the daemon serves everything else, and the
//! store is opened later. Until then, no snapshot is read, written or deleted, whatever the store seems to have.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{info, warn};

use super::chunks;
use super::index::StoredIndex;
use crate::model::{StoreFault, limits};
use crate::packs::{self, Packs};
use crate::sealed::{self, Recorded, Remote};
use crate::service::{Context, Error, SnapshotError};
use crate::store::Store;

/// The store, which may not be open yet.
#[derive(Debug)]
pub(super) struct SnapshotStore {
    state_dir: PathBuf,
    installation: String,
    records: Arc<Store>,
    remote: Option<Remote>,
    opened: OnceLock<Opened>,
    /// It is opened once at a time.
    opening: Semaphore,
    failed: Mutex<Option<Failure>>,
}

/// The store, open.
#[derive(Debug)]
struct Opened {
    packs: Packs,
    remote: Option<sealed::Opened>,
    /// Whether another installation owns the store now.
    is_lost: AtomicBool,
    /// Whether it is not the one that was open before.
    is_new: AtomicBool,
}

/// Why the store could not be opened.
#[derive(Debug, Clone)]
struct Failure {
    at: Instant,
    fault: StoreFault,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Failure {
    fn new(fault: StoreFault) -> Self {
        Self { at: Instant::now(), fault, source: None }
    }

    fn with(fault: StoreFault, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..Self::new(fault) }
    }
}

impl From<Failure> for Error {
    fn from(Failure { fault, source, .. }: Failure) -> Self {
        Self::Snapshot(SnapshotError::StoreClosed { fault, source })
    }
}

impl SnapshotStore {
    /// The store of the settings. A directory is opened at once, and an error is one of the start.
    pub(super) async fn new(context: &Context) -> Result<Self, Error> {
        let remote = context.setup.remote_store.as_ref().map(Remote::new).transpose();
        let remote = remote.map_err(|error| Failure::with(StoreFault::Failed, error))?;
        let store = Self {
            state_dir: context.setup.state_dir.clone(),
            installation: context.instance.id().to_owned(),
            records: Arc::clone(&context.store),
            remote,
            opened: OnceLock::new(),
            opening: Semaphore::new(1),
            failed: Mutex::default(),
        };
        if store.remote.is_none() {
            store.open_directory().await?;
        }
        Ok(store)
    }

    /// Whether it is a remote store.
    pub(super) fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The chunks. Opens the store if necessary, unless that has just failed.
    pub(super) async fn packs(&self) -> Result<&Packs, Error> {
        if let Some(opened) = self.opened.get() {
            return opened.packs();
        }
        let permit = timeout(limits::REMOTE_OPEN, self.opening.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(Failure::new(StoreFault::Opening).into()) };
        let failed = self.failed().clone();
        match failed.filter(|failed| failed.at.elapsed() < limits::REMOTE_OPEN_PAUSE) {
            Some(failed) => Err(failed.into()),
            None => self.open(false).await,
        }
    }

    /// Opens the store if it is not open, and builds its index if that is new, which may take long.
    pub(super) async fn open_fully(&self) -> Result<(), Error> {
        if let Some(opened) = self.opened.get() {
            return opened.packs().map(drop);
        }
        let permit = self.opening.acquire().await;
        let _permit = permit.map_err(|error| Failure::with(StoreFault::Failed, error))?;
        self.open(true).await.map(drop)
    }

    /// Whether the store is open and is not the one of the records. True once.
    pub(super) fn take_new(&self) -> bool {
        self.opened.get().is_some_and(|opened| opened.is_new.swap(false, Ordering::AcqRel))
    }

    /// Fails if another installation owns the store now, whose objects must not be removed. From then on, the store is closed.
    pub(super) async fn check_owner(&self) -> Result<(), Error> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        let Some(remote) = &opened.remote else { return Ok(()) };
        let checked = remote.check_owner(&self.installation).await;
        checked.map_err(|error| {
            if matches!(error, sealed::Error::Owned { .. }) {
                opened.is_lost.store(true, Ordering::Release);
            }
            Failure::with(fault_of(&error), error).into()
        })
    }

    async fn open(&self, may_build: bool) -> Result<&Packs, Error> {
        if let Some(opened) = self.opened.get() {
            return opened.packs();
        }
        let Some(remote) = &self.remote else {
            let failed = self.failed().clone();
            return Err(failed.unwrap_or_else(|| Failure::new(StoreFault::Failed)).into());
        };
        match self.open_remote(remote, may_build).await {
            Ok(opened) => {
                info!("the remote store of snapshots is open");
                *self.failed() = None;
                self.opened.get_or_init(|| opened).packs()
            }
            Err(failed) => {
                let error = failed.clone().into();
                let former = self.failed().replace(failed).map(|former| former.fault);
                warn_of(&error, former);
                Err(error)
            }
        }
    }

    async fn open_remote(&self, remote: &Remote, may_build: bool) -> Result<Opened, Failure> {
        let recorded = self.recorded().await?;
        if recorded.key.is_none() && recorded.is_needed {
            return Err(Failure::new(StoreFault::OtherStore));
        }
        let opened = remote.open(&self.installation, &recorded).await;
        let opened = opened.map_err(|error| Failure::with(fault_of(&error), error))?;
        let is_new = recorded.key.as_ref() != Some(&opened.key);
        if is_new {
            // Before anything refers to the key.
            self.record(Some(&opened.key)).await?;
        }
        let index = StoredIndex::open(&self.state_dir, Some(&opened.key)).await;
        let index = index.map_err(|error| Failure::with(StoreFault::Failed, error))?;
        let packs = Packs::open(Arc::clone(&opened.store), Arc::new(index)).await.map_err(of_packs)?;
        if !packs.is_complete().await.map_err(of_packs)? {
            if !may_build {
                return Err(Failure::new(StoreFault::Opening));
            }
            warn!("the index of the remote store's chunks is new; building it from the packs");
            chunks::rebuild_index(&packs).await.map_err(of_packs)?;
        }
        let is_lost = AtomicBool::new(false);
        Ok(Opened { packs, remote: Some(opened), is_lost, is_new: AtomicBool::new(is_new) })
    }

    /// Opens the directory, unless the snapshots are in a remote store.
    async fn open_directory(&self) -> Result<(), Error> {
        let recorded = self.recorded().await?;
        if recorded.key.is_some() && recorded.is_needed {
            let failed = Failure::new(StoreFault::OtherStore);
            warn_of(&failed.clone().into(), None);
            *self.failed() = Some(failed);
            return Ok(());
        }
        if recorded.key.is_some() {
            self.record(None).await?;
        }
        let packs = chunks::open(&self.state_dir).await?;
        let (is_lost, is_new) = (AtomicBool::new(false), AtomicBool::new(false));
        self.opened.get_or_init(|| Opened { packs, remote: None, is_lost, is_new });
        Ok(())
    }

    async fn recorded(&self) -> Result<Recorded, Failure> {
        let read = async {
            let is_needed = !self.records.all_snapshots().await?.is_empty();
            Ok(Recorded { key: self.records.snapshot_store().await?, is_needed })
        };
        read.await.map_err(|error: crate::store::Error| Failure::with(StoreFault::Failed, error))
    }

    async fn record(&self, key: Option<&str>) -> Result<(), Failure> {
        let recorded = self.records.set_snapshot_store(key).await;
        recorded.map_err(|error| Failure::with(StoreFault::Failed, error))
    }

    /// Every change is complete, so a panic elsewhere leaves it valid.
    fn failed(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    fn packs(&self) -> Result<&Packs, Error> {
        match self.is_lost.load(Ordering::Acquire) {
            true => Err(Failure::new(StoreFault::Owned).into()),
            false => Ok(&self.packs),
        }
    }
}

/// Logs an error unless the last attempt had the same fault.
fn warn_of(error: &Error, former: Option<StoreFault>) {
    if let Error::Snapshot(SnapshotError::StoreClosed { fault, .. }) = error
        && former != Some(*fault)
    {
        let error = error as &dyn StdError;
        warn!(error, advice = fault.advice(), "snapshots are unavailable; everything else works");
    }
}

fn fault_of(error: &sealed::Error) -> StoreFault {
    match error {
        sealed::Error::Unavailable { .. } | sealed::Error::Deadline => StoreFault::Unavailable,
        sealed::Error::Denied { .. } => StoreFault::Denied,
        sealed::Error::WrongKey { .. } => StoreFault::WrongKey,
        sealed::Error::LostKey { .. } => StoreFault::LostKey,
        sealed::Error::Damaged { .. } => StoreFault::DamagedKey,
        sealed::Error::Owned { .. } => StoreFault::Owned,
        sealed::Error::Settings(_) | sealed::Error::System(_) => StoreFault::Failed,
    }
}

fn of_packs(error: packs::Error) -> Failure {
    let fault = match &error {
        packs::Error::Unavailable { .. } | packs::Error::Unread { .. } => StoreFault::Unavailable,
        _ => StoreFault::Failed,
    };
    Failure::with(fault, error)
}
