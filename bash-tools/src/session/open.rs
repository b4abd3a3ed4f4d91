//! The open sessions.
//!
//! A map of slots behind a lock that is held only for short operations. The common cache moka is not used, because it
//! cannot refuse to evict entries in use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

use super::slot::{Opening, Pinned, Slot};
use super::slots::{Deleting, InUse, Releasing, Slots};
use super::{ChatKey, Error, SessionState};
use crate::provider::{self, Opened, Provider, SandboxId};
use crate::seed::{self, OpenedForSeed, Seed, SeedState};

/// Deadline for releasing a session to make room. Until then the new session waits, and so does a reopening of the
/// old one.
const RELEASE: Duration = Duration::from_secs(30);

/// How often idle sessions are checked: ten times per idle time, within these limits.
const CHECK_MIN: Duration = Duration::from_millis(100);
const CHECK_MAX: Duration = Duration::from_secs(10);

/// Limits of the open sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Maximum number of open sessions, including those being opened.
    pub max_open: usize,
    /// Idle time after which a session is released.
    pub idle_ttl: Duration,
}

/// One sandbox for each chat. Cheap to clone. All clones share the same sessions.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    provider: Arc<dyn Provider>,
    seed: Option<Seed>,
    limits: SessionLimits,
    slots: Mutex<Slots>,
}

/// A sandbox in use. Its session is not released while the lease exists.
#[derive(Debug)]
pub struct Lease {
    sandbox: SandboxId,
    _pinned: Pinned,
}

impl Sessions {
    /// Creates an empty set of sessions. Must be called within a tokio runtime, which runs the check for idle
    /// sessions.
    pub fn new(provider: Arc<dyn Provider>, seed: Option<Seed>, limits: SessionLimits) -> Self {
        let slots = Mutex::new(Slots::new(limits.max_open));
        let inner = Arc::new(Inner { provider, seed, limits, slots });
        tokio::spawn(release_idle_loop(Arc::downgrade(&inner), limits.idle_ttl));
        Self { inner }
    }

    /// Returns the provider of the sandboxes.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.inner.provider
    }

    /// Returns the session's sandbox, and opens and seeds it if necessary. Concurrent callers wait for the same
    /// opening. It continues if they leave.
    pub async fn lease(&self, key: &ChatKey) -> Result<Lease, Error> {
        self.lease_with_progress(key, |_| {}).await
    }

    /// Same as [`lease`](Self::lease). `report` receives each state of the opening. It is not called if the session is
    /// already open.
    pub async fn lease_with_progress(
        &self,
        key: &ChatKey,
        report: impl Fn(&SessionState),
    ) -> Result<Lease, Error> {
        let pinned = match self.find(key) {
            Some(pinned) => pinned,
            None => self.begin(key, true)?,
        };
        let sandbox = match pinned.slot().sandbox() {
            Some(sandbox) => sandbox,
            None => pinned.slot().wait(report).await?,
        };
        Ok(Lease { sandbox, _pinned: pinned })
    }

    /// Opens the session in advance if there is a free slot, and does not wait. No other session is released for it,
    /// because it is not requested yet.
    pub fn prewarm(&self, key: &ChatKey) {
        if self.find(key).is_none()
            && let Err(error) = self.begin(key, false)
        {
            tracing::debug!(session = %key, %error, "not opened in advance");
        }
    }

    /// Returns the state of the session.
    pub fn state(&self, key: &ChatKey) -> SessionState {
        self.inner.slots().get(key).map_or(SessionState::Closed, |slot| slot.state())
    }

    /// Returns the state of the session's seed, if the app has one.
    pub fn seed_state(&self, key: &ChatKey) -> Option<SeedState> {
        self.inner.seed.as_ref()?;
        Some(self.inner.slots().get(key).map_or(SeedState::Pending, |slot| slot.seed_state()))
    }

    /// Removes a sandbox that the provider has lost, so that the next use creates another.
    pub fn forget(&self, key: &ChatKey, lost: &SandboxId) {
        self.inner.slots().forget(key, lost);
    }

    /// Parks the session's sandbox and keeps its files, whether or not it is open here. Fails with
    /// [`provider::Error::Busy`] and changes nothing if it is in use. Safe to repeat.
    pub async fn park(&self, key: &ChatKey) -> provider::Result<()> {
        let busy = |InUse| provider::Error::Busy { message: "the sandbox is in use".into() };
        let releasing = self.inner.slots().close_unused(key).map_err(busy)?;
        // Runs in a task, because the next opening of the session waits for its end.
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.park(&key, releasing).await }).await
    }

    /// Removes the session's sandbox and its files, whether or not it is open here or in use. An opening in progress
    /// is stopped. A session opened after this call is a new one. Safe to repeat.
    pub async fn delete(&self, key: &ChatKey) -> provider::Result<()> {
        let deleting = self.inner.slots().delete(key);
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.delete(&key, deleting).await }).await
    }

    fn find(&self, key: &ChatKey) -> Option<Pinned> {
        self.inner.slots().pin(key)
    }

    /// Takes a slot for the session and starts to open it.
    fn begin(&self, key: &ChatKey, may_close: bool) -> Result<Pinned, Error> {
        let mut slots = self.inner.slots();
        // Another caller may have started since the lookup.
        if let Some(pinned) = slots.pin(key) {
            return Ok(pinned);
        }
        let (pinned, releasing) = slots.take(key, may_close)?;
        drop(slots);
        // Runs in its own task, because the caller may leave while others wait.
        tokio::spawn(Inner::open(Arc::clone(&self.inner), key.clone(), pinned.unpinned(), releasing));
        Ok(pinned)
    }
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        // A panic cannot leave the map inconsistent, because each change is complete.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(inner: Arc<Self>, key: ChatKey, slot: Arc<Slot>, releasing: Option<Releasing>) {
        let unsettled = FailOnDrop(&slot);
        if let Some(releasing) = releasing {
            inner.release(releasing).await;
        }
        match inner.try_open(&key, &slot).await {
            Ok(sandbox) => slot.report(Opening::Ready(sandbox)),
            Err(error) => {
                tracing::warn!(session = %key, %error, "the session could not be opened");
                slot.report(Opening::Failed(error));
            }
        }
        drop(unsettled);
    }

    /// A sandbox that is being released must not be used, because it would stop during use.
    async fn wait_until_left(&self, key: &ChatKey) {
        while let Some(mut is_gone) = self.releasing(key) {
            // Nothing is ever sent. The wait ends when the sender is dropped.
            let _ = is_gone.changed().await;
        }
    }

    fn releasing(&self, key: &ChatKey) -> Option<watch::Receiver<()>> {
        // A task that was ended from outside must not block the session.
        self.slots().releasing(key).filter(|is_gone| is_gone.has_changed().is_ok())
    }

    async fn try_open(&self, key: &ChatKey, slot: &Slot) -> Result<SandboxId, Error> {
        tokio::select! {
            biased;
            () = slot.is_deleted() => return Err(Error::Deleted),
            () = self.wait_until_left(key) => {}
        }
        // Not cancelled by a delete, because it would then be unknown whether a sandbox exists.
        let opened = match &self.seed {
            Some(seed) => seed.open(self.provider.as_ref(), key).await.map_err(|error| match error {
                seed::Error::Provider(error) => Error::of(error),
                error => Error::Seed(Arc::new(error)),
            })?,
            None => self.provider.open(key).await.map_err(Error::of)?.into(),
        };
        tokio::select! {
            biased;
            () = slot.is_deleted() => Err(Error::Deleted),
            seeded = self.seed_workspace(opened, slot) => seeded,
        }
    }

    async fn seed_workspace(&self, opened: OpenedForSeed, slot: &Slot) -> Result<SandboxId, Error> {
        let Opened { sandbox, is_new } = &opened.opened;
        let is_untouched = self.slots().is_untouched(sandbox, *is_new);
        if let Some(seed) = &self.seed {
            let report = |seed| slot.report(Opening::Under(SessionState::Seeding { seed }));
            report(SeedState::Pending);
            let step = |step| report(SeedState::Running { step });
            let seeded = seed.complete(self.provider.as_ref(), &opened, is_untouched, &step).await;
            seeded.map_err(|error| Error::Seed(Arc::new(error)))?;
        }
        self.slots().touch(sandbox);
        Ok(opened.opened.sandbox)
    }

    /// Releases a sandbox's slot. Errors are only logged, because the provider also releases idle sandboxes by
    /// itself.
    async fn release(&self, releasing: Releasing) {
        let Releasing { sandbox, gate } = releasing;
        match timeout(RELEASE, self.provider.release(&sandbox)).await {
            Ok(Ok(()) | Err(provider::Error::Gone)) => {}
            Ok(Err(error)) => tracing::info!(%sandbox, %error, "the sandbox was not released"),
            Err(_) => tracing::warn!(%sandbox, "the sandbox was not released in time"),
        }
        self.slots().finish_release(gate);
    }

    async fn park(&self, key: &ChatKey, releasing: Option<Releasing>) -> provider::Result<()> {
        let (sandbox, gate) = match releasing {
            Some(Releasing { sandbox, gate }) => (Some(sandbox), Some(gate)),
            None => (self.provider.find(key).await?, None),
        };
        let parked = match sandbox {
            Some(sandbox) => self.provider.park(&sandbox).await,
            None => Ok(()),
        };
        if let Some(gate) = gate {
            self.slots().finish_release(gate);
        }
        match parked {
            Err(provider::Error::Gone) => Ok(()),
            parked => parked,
        }
    }

    async fn delete(&self, key: &ChatKey, deleting: Deleting) -> provider::Result<()> {
        let Deleting { slot, gate } = deleting;
        let deleted = self.delete_opened(key, slot).await;
        self.slots().finish_release(gate);
        deleted
    }

    async fn delete_opened(&self, key: &ChatKey, slot: Option<Arc<Slot>>) -> provider::Result<()> {
        let opened = match slot {
            Some(slot) => slot.wait(|_| {}).await.ok(),
            None => None,
        };
        let sandbox = match opened {
            Some(sandbox) => Some(sandbox),
            None => self.provider.find(key).await?,
        };
        match sandbox {
            Some(sandbox) => self.provider.delete(&sandbox).await,
            None => Ok(()),
        }
    }
}

/// Runs the operation to its end, even if the caller stops waiting.
async fn run_detached(
    act: impl Future<Output = provider::Result<()>> + Send + 'static,
) -> provider::Result<()> {
    tokio::spawn(act).await.unwrap_or_else(|stopped| Err(provider::Error::Broken(stopped.into())))
}

/// A session that is being opened. If the task ends without a result, waiting callers get an error.
struct FailOnDrop<'a>(&'a Slot);

impl Drop for FailOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.is_opening() {
            self.0.report(Opening::Failed(Error::Stopped));
        }
    }
}

async fn release_idle_loop(sessions: Weak<Inner>, idle_ttl: Duration) {
    let mut ticks = interval((idle_ttl / 10).clamp(CHECK_MIN, CHECK_MAX));
    loop {
        ticks.tick().await;
        let Some(inner) = sessions.upgrade() else { return };
        let over = inner.slots().close_idle(idle_ttl);
        join_all(over.into_iter().map(|releasing| inner.release(releasing))).await;
    }
}

impl Lease {
    /// Returns the id of the sandbox.
    pub fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}
