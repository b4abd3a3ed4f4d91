//! Processes that ended commands left running, and their removal when the sandbox is at its process limit.
//!
//! A background process may outlive its command, and stays as long as the limit is not reached. If a start fails at
//! the process limit, the leftovers are killed once before the start is rejected. This happens only if they hold at
//! least as many processes as the running commands. Otherwise the limit would soon be reached again.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::Pid;

use crate::members;
use crate::termination::{self, Target};
use crate::waiting_shells::WaitingShells;

/// A set of commands or terminals, some of which are running.
pub(crate) trait Running: Send + Sync {
    /// Returns those that have not ended.
    fn targets(&self) -> Vec<Arc<dyn Target + Send + Sync>>;
}

/// Finds and kills the processes that belong to no running command or terminal.
pub(crate) struct Leftovers {
    /// Belong to no command, and are kept.
    waiting_shells: Arc<WaitingShells>,
    sets: Mutex<Vec<Weak<dyn Running>>>,
    /// Held during a sweep, so that there is one at a time.
    sweep: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Leftovers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Leftovers").finish_non_exhaustive()
    }
}

impl Leftovers {
    pub(crate) fn new(waiting_shells: Arc<WaitingShells>) -> Self {
        Self { waiting_shells, sets: Mutex::default(), sweep: tokio::sync::Mutex::default() }
    }

    /// Spares the running members of this set.
    pub(crate) fn spare(&self, set: Weak<dyn Running>) {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).push(set);
    }

    /// Kills the leftovers of ended commands if that frees enough processes. Returns whether there were any.
    pub(crate) async fn end(&self) -> bool {
        let _turn = self.sweep.lock().await;
        let found = self.find();
        if found.is_empty() {
            return false;
        }
        termination::kill_all(|| self.find()).await;
        true
    }

    fn find(&self) -> Vec<Pid> {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let targets: Vec<_> = sets.iter().filter_map(Weak::upgrade).flat_map(|set| set.targets()).collect();
        let owners: Vec<_> = targets.iter().map(|target| target.owner()).collect();
        let shares = members::shares(&owners, &self.waiting_shells.processes());
        if shares.left_threads >= shares.owned_threads { shares.left } else { Vec::new() }
    }
}
