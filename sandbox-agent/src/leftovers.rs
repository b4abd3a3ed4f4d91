//! What ended commands left running, and ending it when the sandbox is at its limit of processes.
//!
//! A background process may outlive its command, and nothing ends it while there is room. Where a start fails for
//! want of processes, the leftovers are ended once before it is refused, if they hold at least as many processes as
//! what runs: otherwise ending them makes no room that lasts, and only the commands that run can be ended.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::Pid;

use crate::ladder::{self, Target};
use crate::members;

/// A set of commands or terminals, some of which run.
pub(crate) trait Running: Send + Sync {
    /// Those that have not ended.
    fn targets(&self) -> Vec<Arc<dyn Target + Send + Sync>>;
}

/// Finds and ends the processes that belong to nothing that runs.
#[derive(Default)]
pub(crate) struct Leftovers {
    sets: Mutex<Vec<Weak<dyn Running>>>,
    /// One sweep at a time.
    turn: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Leftovers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Leftovers").finish_non_exhaustive()
    }
}

impl Leftovers {
    /// Spares what runs of this set.
    pub(crate) fn spare(&self, set: Weak<dyn Running>) {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).push(set);
    }

    /// Ends the leftovers of ended commands if that makes room; whether there were any.
    pub(crate) async fn end(&self) -> bool {
        let _turn = self.turn.lock().await;
        let found = self.find();
        if found.is_empty() {
            return false;
        }
        ladder::kill_left(|| self.find()).await;
        true
    }

    fn find(&self) -> Vec<Pid> {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let targets: Vec<_> = sets.iter().filter_map(Weak::upgrade).flat_map(|set| set.targets()).collect();
        let owners: Vec<_> = targets.iter().map(|target| target.owner()).collect();
        let shares = members::shares(&owners);
        if shares.left_threads >= shares.owned_threads { shares.left } else { Vec::new() }
    }
}
