//! The state of each base: its leases, whether it may be removed, and when it may be made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::engine::BaseUse;
use crate::service::clock::now_ms;

/// The states of all bases. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct States(Arc<Mutex<HashMap<String, BaseState>>>);

/// State of a base, which may not exist yet.
#[derive(Debug, Default)]
struct BaseState {
    /// Number of leases.
    leases: usize,
    /// It is a candidate for a removal.
    is_candidate: bool,
    /// It was being made or removed, and it is unknown whether it exists, or will.
    is_unsettled: bool,
    /// Increases whenever it becomes settled or unsettled.
    generation: u64,
    /// Its file, if the kernel does not mount it.
    damaged: Option<BaseUse>,
    /// When it may be tried again to make it.
    not_before: NotBefore,
    /// When it was last held, in milliseconds since 1970.
    used_ms: i64,
}

/// When a base may be made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum NotBefore {
    #[default]
    Now,
    Time(Instant),
    /// Its files cannot be a base.
    Never,
}

/// Prevents the removal of a base until it is dropped.
#[derive(Debug)]
pub(super) struct BaseLease {
    states: States,
    pub(super) name: String,
}

impl Drop for BaseLease {
    fn drop(&mut self) {
        if let Some(state) = self.states.lock().get_mut(&self.name) {
            state.leases -= 1;
        }
    }
}

impl States {
    pub(super) fn begin_to_remove_unsettled(&self) -> Vec<String> {
        let mut states = self.lock();
        states.values_mut().for_each(|state| state.is_candidate = false);
        let unsettled = states.iter().filter(|(_, state)| state.is_unsettled);
        unsettled.map(|(name, _)| name.clone()).collect()
    }

    /// Marks the bases that are not leased, and returns them. Later leases see the mark. `in_use` includes the bases of
    /// earlier ones.
    pub(super) fn candidates(&self, mut bases: Vec<BaseUse>) -> Vec<BaseUse> {
        let mut states = self.lock();
        bases.retain(|base| {
            let state = states.entry(base.name.clone()).or_default();
            state.is_candidate = state.leases == 0 && !state.is_unsettled;
            state.is_candidate
        });
        bases
    }

    /// Unmarks the candidates that are kept. Returns the others.
    pub(super) fn keep(&self, bases: Vec<BaseUse>, is_kept: impl Fn(&BaseUse) -> bool) -> Vec<BaseUse> {
        let (kept, others): (Vec<_>, Vec<_>) = bases.into_iter().partition(|base| is_kept(base));
        for base in kept {
            if let Some(state) = self.lock().get_mut(&base.name) {
                state.is_candidate = false;
            }
        }
        others
    }

    pub(super) fn set_unsettled(&self, name: &str, is_unsettled: bool) {
        if let Some(state) = self.lock().get_mut(name) {
            state.is_unsettled = is_unsettled;
            state.is_candidate = false;
            state.damaged = None;
            state.generation += 1;
        }
    }

    /// Records that a base cannot be mounted, until it has another file.
    pub(super) fn set_damaged(&self, base: BaseUse) {
        let name = base.name.clone();
        self.lock().entry(name).or_default().damaged = Some(base);
    }

    pub(super) fn is_damaged(&self, base: &BaseUse) -> bool {
        self.lock().get(&base.name).is_some_and(|state| state.damaged.as_ref() == Some(base))
    }

    /// Generation of a base, if it is not removed while it is leased. If the generation changes, the base may have been
    /// replaced.
    pub(super) fn stable_generation(&self, name: &str) -> Option<u64> {
        let states = self.lock();
        let state = states.get(name).filter(|state| !state.is_candidate && !state.is_unsettled);
        state.map(|state| state.generation)
    }

    /// Removes the states of bases that do not exist and are not being made.
    pub(super) fn forget_absent(&self, existing: &[BaseUse]) {
        let is_kept = |name: &String, state: &mut BaseState| {
            let is_known = state.is_unsettled || !matches!(state.not_before, NotBefore::Now);
            state.leases > 0 || is_known || existing.iter().any(|base| base.name == *name)
        };
        self.lock().retain(is_kept);
    }

    /// Leases a base. `None` if it is not made now.
    pub(super) fn lease(&self, name: &str) -> Option<BaseLease> {
        let mut states = self.lock();
        let state = states.entry(name.to_owned()).or_default();
        match state.not_before {
            NotBefore::Never => return None,
            NotBefore::Time(time) if Instant::now() < time => return None,
            NotBefore::Now | NotBefore::Time(_) => state.not_before = NotBefore::Now,
        }
        state.leases += 1;
        state.used_ms = now_ms();
        Some(BaseLease { states: self.clone(), name: name.to_owned() })
    }

    pub(super) fn set_not_before(&self, name: &str, not_before: NotBefore) {
        if let Some(state) = self.lock().get_mut(name) {
            state.not_before = not_before;
        }
    }

    /// When the base was last used, in milliseconds since 1970, as far as it is known.
    pub(super) fn used_ms(&self, base: &BaseUse) -> i64 {
        let known = self.lock().get(&base.name).map_or(0, |state| state.used_ms);
        known.max(base.made_s.saturating_mul(1000))
    }

    /// A panic while the lock was held leaves no inconsistent state.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, BaseState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
