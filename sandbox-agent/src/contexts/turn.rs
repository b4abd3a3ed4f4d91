//! The turn of a context: one run at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Whether code runs in a context, and how it is interrupted.
#[derive(Debug, Default)]
pub(super) struct Turn {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Interrupts the run, if there is one.
    interrupt: Option<Arc<Notify>>,
    runs: u64,
}

/// The right to run code. Dropping it ends the turn.
#[derive(Debug)]
pub(super) struct RunPermit {
    turn: Arc<Turn>,
    /// Number of the run, from 1.
    pub(super) number: u64,
    /// Notified by a request to interrupt the run.
    pub(super) interrupt: Arc<Notify>,
}

impl Turn {
    /// Takes the turn. Returns `None` while code runs.
    pub(super) fn take(self: &Arc<Self>) -> Option<RunPermit> {
        let mut state = self.lock();
        if state.interrupt.is_some() {
            return None;
        }
        let interrupt = Arc::new(Notify::new());
        state.interrupt = Some(Arc::clone(&interrupt));
        state.runs += 1;
        Some(RunPermit { turn: Arc::clone(self), number: state.runs, interrupt })
    }

    /// Interrupts the run. Returns whether there is one.
    pub(super) fn interrupt(&self) -> bool {
        let running = self.lock().interrupt.clone();
        running.inspect(|run| run.notify_one()).is_some()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.lock().interrupt.is_some()
    }

    /// Number of runs so far.
    pub(super) fn runs(&self) -> u64 {
        self.lock().runs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.turn.lock().interrupt = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_taken_once_until_its_run_ends() {
        let turn = Arc::new(Turn::default());
        assert!(!turn.interrupt());
        let first = turn.take().unwrap();
        assert!(turn.take().is_none());
        assert!(turn.interrupt());
        drop(first);
        assert_eq!(turn.take().unwrap().number, 2);
        assert_eq!(turn.runs(), 2);
    }
}
