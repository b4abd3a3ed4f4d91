//! The sessions that are open.
//!
//! A map of slots behind a lock that is held for no longer than a look. moka, the usual cache, cannot refuse to evict what is in
//! use, which is the one thing that matters here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::time::{interval, timeout};

use super::slot::{Opening, Pinned, Slot};
use super::{Error, SessionKey, SessionState};
use crate::provider::{self, Provider, SandboxId};
use crate::seed::{Seed, SeedState};

/// How long one that makes room may take to be released. Until then the new one waits.
const RELEASE: Duration = Duration::from_secs(30);

/// How often idle ones are looked for: ten times in their time, within these.
const LOOK_LEAST: Duration = Duration::from_millis(100);
const LOOK_MOST: Duration = Duration::from_secs(10);

/// How many sessions may be open, and for how long without being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Open at once, those being opened among them.
    pub max_open: usize,
    /// Then an unused one is released.
    pub idle_ttl: Duration,
}

/// One sandbox for each chat. Cheap to clone; all clones are the same sessions.
#[derive(Clone)]
pub struct Sessions {
    inner: Arc<Inner>,
}

struct Inner {
    provider: Arc<dyn Provider>,
    seed: Option<Seed>,
    limits: SessionLimits,
    slots: Mutex<Slots>,
    began: Instant,
}

type Slots = HashMap<SessionKey, Arc<Slot>>;

/// A sandbox in use. As long as it lives, its session does not make room for another.
#[derive(Debug)]
pub struct Lease {
    sandbox: SandboxId,
    _pinned: Pinned,
}

impl Sessions {
    /// None is open. Must be called within a tokio runtime, where idle ones are looked for.
    pub fn new(provider: Arc<dyn Provider>, seed: Option<Seed>, limits: SessionLimits) -> Self {
        let inner =
            Arc::new(Inner { provider, seed, limits, slots: Mutex::default(), began: Instant::now() });
        tokio::spawn(release_idle_ones(Arc::downgrade(&inner), limits.idle_ttl));
        Self { inner }
    }

    /// Where the sandboxes are.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.inner.provider
    }

    /// The session's sandbox, opened and seeded where it is not yet. All who ask at once wait for the same opening, and it goes
    /// on where they leave.
    pub async fn lease(&self, key: &SessionKey) -> Result<Lease, Error> {
        let pinned = match self.find(key) {
            Some(pinned) => pinned,
            None => self.begin(key, true)?,
        };
        let sandbox = match pinned.slot().sandbox() {
            Some(sandbox) => sandbox,
            None => pinned.slot().wait().await?,
        };
        Ok(Lease { sandbox, _pinned: pinned })
    }

    /// Opens the session beforehand where there is room for it, and does not wait. Nothing makes room for it, because nobody
    /// has asked for it yet.
    pub fn prewarm(&self, key: &SessionKey) {
        if self.find(key).is_none()
            && let Err(error) = self.begin(key, false)
        {
            tracing::debug!(session = %key, %error, "not opened beforehand");
        }
    }

    /// How far the session is.
    pub fn state(&self, key: &SessionKey) -> SessionState {
        self.inner.slots().get(key).map_or(SessionState::Closed, |slot| slot.state())
    }

    /// How far the session's first files are, where the app has any for it.
    pub fn seed_state(&self, key: &SessionKey) -> Option<SeedState> {
        self.inner.seed.as_ref()?;
        Some(self.inner.slots().get(key).map_or(SeedState::Pending, |slot| slot.seed_state()))
    }

    /// Forgets a sandbox that the provider has lost, so that the next use makes another.
    pub fn forget(&self, key: &SessionKey, lost: &SandboxId) {
        let mut slots = self.inner.slots();
        if slots.get(key).is_some_and(|slot| slot.sandbox().as_ref() == Some(lost)) {
            slots.remove(key);
        }
    }

    /// Removes the session's sandbox and its files, whether or not it is open here. Safe to repeat.
    pub async fn delete(&self, key: &SessionKey) -> provider::Result<()> {
        // One that is being opened is removed by who opens it, when its place turns out to be gone.
        let open = self.inner.slots().remove(key).and_then(|slot| slot.sandbox());
        let sandbox = match open {
            Some(sandbox) => Some(sandbox),
            None => self.inner.provider.find(key).await?,
        };
        match sandbox {
            Some(sandbox) => self.inner.provider.delete(&sandbox).await,
            None => Ok(()),
        }
    }

    /// The session's place, unless its opening has failed.
    fn find(&self, key: &SessionKey) -> Option<Pinned> {
        let slots = self.inner.slots();
        slots.get(key).filter(|slot| !slot.has_failed()).map(Pinned::new)
    }

    /// Takes a place for the session and begins to open it.
    fn begin(&self, key: &SessionKey, may_make_room: bool) -> Result<Pinned, Error> {
        let mut slots = self.inner.slots();
        // Another may have begun since it was looked for.
        if let Some(slot) = slots.get(key).filter(|slot| !slot.has_failed()) {
            return Ok(Pinned::new(slot));
        }
        let mut leaving = None;
        if !slots.contains_key(key) && slots.len() >= self.inner.limits.max_open {
            let idle = idle_longest(&slots, may_make_room);
            let idle = idle.ok_or(Error::AllInUse { limit: self.inner.limits.max_open })?;
            leaving = slots.remove(&idle).and_then(|slot| slot.sandbox());
        }
        let slot = Arc::new(Slot::new(self.inner.began));
        let pinned = Pinned::new(&slot);
        slots.insert(key.clone(), Arc::clone(&slot));
        drop(slots);
        // A task of its own: who asked may leave, and others wait for it too.
        tokio::spawn(Inner::open(Arc::clone(&self.inner), key.clone(), slot, leaving));
        Ok(pinned)
    }
}

/// What makes room: what could not be opened, or else what nobody has used for the longest time.
fn idle_longest(slots: &Slots, may_close: bool) -> Option<SessionKey> {
    let idle = slots.iter().filter(|(_, slot)| slot.is_idle() && (may_close || slot.has_failed()));
    idle.min_by_key(|(_, slot)| (!slot.has_failed(), slot.last_used_ms())).map(|(key, _)| key.clone())
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Every change of the map is a single step, so one that panicked left it whole.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(inner: Arc<Self>, key: SessionKey, slot: Arc<Slot>, leaving: Option<SandboxId>) {
        let unsettled = Unsettled(&slot);
        if let Some(leaving) = leaving {
            inner.release(&leaving).await;
        }
        match inner.try_open(&key, &slot).await {
            Ok(sandbox) => {
                let is_wanted = inner.slots().get(&key).is_some_and(|there| Arc::ptr_eq(there, &slot));
                if is_wanted {
                    slot.tell(Opening::Ready(sandbox));
                } else if let Err(error) = inner.provider.delete(&sandbox).await {
                    tracing::warn!(session = %key, %error, "the sandbox of a session that was deleted stays");
                }
            }
            Err(error) => {
                tracing::warn!(session = %key, %error, "the session could not be opened");
                slot.tell(Opening::Failed(error));
            }
        }
        drop(unsettled);
    }

    async fn try_open(&self, key: &SessionKey, slot: &Slot) -> Result<SandboxId, Error> {
        let sandbox = self.provider.open(key).await.map_err(Error::of)?.sandbox;
        if let Some(seed) = &self.seed {
            let tell = |seed| slot.tell(Opening::Under(SessionState::Seeding { seed }));
            tell(SeedState::Pending);
            let step = |step| tell(SeedState::Running { step });
            let planted = seed.plant(self.provider.as_ref(), &sandbox, &step).await;
            planted.map_err(|error| Error::Seed(Arc::new(error)))?;
        }
        Ok(sandbox)
    }

    /// Gives a sandbox's place back. What fails is only told: the provider releases what is idle by itself, too, and
    /// refuses while a server that the model has started runs.
    async fn release(&self, sandbox: &SandboxId) {
        match timeout(RELEASE, self.provider.release(sandbox)).await {
            Ok(Ok(()) | Err(provider::Error::Gone)) => {}
            Ok(Err(error)) => tracing::info!(%sandbox, %error, "the sandbox was not released"),
            Err(_) => tracing::warn!(%sandbox, "the sandbox was not released in time"),
        }
    }

    fn take_idle_ones(&self) -> Vec<SandboxId> {
        let ttl = u64::try_from(self.limits.idle_ttl.as_millis()).unwrap_or(u64::MAX);
        let mut slots = self.slots();
        let is_over =
            |slot: &Slot| slot.is_idle() && slot.now_ms().saturating_sub(slot.last_used_ms()) >= ttl;
        slots.extract_if(|_, slot| is_over(slot)).filter_map(|(_, slot)| slot.sandbox()).collect()
    }
}

/// A session that is being opened. Where that ends without a word, those who wait are told.
struct Unsettled<'a>(&'a Slot);

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if self.0.is_opening() {
            self.0.tell(Opening::Failed(Error::Stopped));
        }
    }
}

async fn release_idle_ones(sessions: Weak<Inner>, idle_ttl: Duration) {
    let mut ticks = interval((idle_ttl / 10).clamp(LOOK_LEAST, LOOK_MOST));
    loop {
        ticks.tick().await;
        let Some(inner) = sessions.upgrade() else { return };
        for sandbox in inner.take_idle_ones() {
            inner.release(&sandbox).await;
        }
    }
}

impl Lease {
    /// The sandbox.
    pub fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}
