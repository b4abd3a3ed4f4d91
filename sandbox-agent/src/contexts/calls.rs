//! Calls of the caller's tools that the code of a context waits for.
//!
//! A call waits until it is answered, its time is over, or its run ends. Exactly one of them happens. The task of the run waits
//! for [`Calls::next`] and passes the outcome to the interpreter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::tools::Tools;
use agent_protocol::MAX_WAITING_TOOL_CALLS;
use agent_protocol::v1;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What a call came to.
#[derive(Debug, PartialEq)]
pub(super) struct Settled {
    /// The interpreter's id of the request.
    pub(super) id: u64,
    /// Number of the call, if its time is over.
    pub(super) expired: Option<u64>,
    pub(super) answer: v1::tool_answer::Outcome,
}

/// The calls of a context.
#[derive(Debug, Default)]
pub(super) struct Calls {
    tools: Tools,
    state: Mutex<State>,
    answered: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of calls so far.
    count: u64,
    /// By number of the call.
    waiting: BTreeMap<u64, Waiting>,
    settled: VecDeque<Settled>,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    timeout: Duration,
    until: Instant,
}

impl Calls {
    pub(super) fn new(tools: Tools) -> Self {
        Self { tools, ..Self::default() }
    }

    /// The tools that can be called.
    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Begins a call. Returns its number, or `None` if too many wait.
    pub(super) fn begin(&self, id: u64, timeout: Duration) -> Option<u64> {
        let mut state = self.lock();
        // Settled ones count too, because each holds memory until the interpreter takes it.
        if state.waiting.len() + state.settled.len() >= MAX_WAITING_TOOL_CALLS {
            return None;
        }
        state.count += 1;
        let call = state.count;
        state.waiting.insert(call, Waiting { id, timeout, until: Instant::now() + timeout });
        Some(call)
    }

    /// Answers a call. Fails with the number of calls so far if it does not wait.
    pub(super) fn answer(&self, call: u64, answer: v1::tool_answer::Outcome) -> Result<(), u64> {
        let mut state = self.lock();
        let Some(Waiting { id, .. }) = state.waiting.remove(&call) else { return Err(state.count) };
        state.settled.push_back(Settled { id, expired: None, answer });
        self.answered.notify_one();
        Ok(())
    }

    /// Waits for the next outcome. Safe to cancel.
    pub(super) async fn next(&self) -> Settled {
        loop {
            let until = {
                let mut state = self.lock();
                if let Some(settled) = state.settled.pop_front().or_else(|| state.expire(Instant::now())) {
                    return settled;
                }
                state.waiting.values().map(|waiting| waiting.until).min()
            };
            tokio::select! {
                () = self.answered.notified() => {}
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Forgets the calls of a run that is over.
    pub(super) fn end_run(&self) {
        let mut state = self.lock();
        state.waiting.clear();
        state.settled.clear();
    }

    /// Number of calls so far.
    pub(super) fn count(&self) -> u64 {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a call whose time is over.
    fn expire(&mut self, now: Instant) -> Option<Settled> {
        let (&call, _) = self.waiting.iter().find(|(_, waiting)| waiting.until <= now)?;
        let Waiting { id, timeout, .. } = self.waiting.remove(&call)?;
        let message = format!("the tool did not answer within {} ms", timeout.as_millis());
        let error = v1::ToolError { r#type: v1::ToolErrorType::Timeout as i32, message };
        Some(Settled { id, expired: Some(call), answer: v1::tool_answer::Outcome::Error(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn result() -> v1::tool_answer::Outcome {
        v1::tool_answer::Outcome::Result(b"1".as_slice().into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_has_one_outcome() {
        let calls = Calls::default();
        let first = calls.begin(7, LONG).unwrap();
        let second = calls.begin(8, Duration::from_millis(5)).unwrap();
        assert_eq!((first, second), (1, 2));
        assert_eq!(calls.answer(first, result()), Ok(()));
        assert_eq!(calls.answer(first, result()), Err(2));
        assert_eq!(calls.next().await, Settled { id: 7, expired: None, answer: result() });
        let expired = calls.next().await;
        assert_eq!((expired.id, expired.expired), (8, Some(second)));
        assert_eq!(calls.answer(second, result()), Err(2));
        assert_eq!(calls.answer(3, result()), Err(2));
    }

    #[test]
    fn the_calls_that_wait_are_bounded_until_the_run_ends() {
        let calls = Calls::default();
        for id in 0..MAX_WAITING_TOOL_CALLS as u64 {
            assert!(calls.begin(id, LONG).is_some());
        }
        assert_eq!(calls.begin(99, LONG), None);
        // An answer that was not taken still counts.
        calls.answer(1, result()).unwrap();
        assert_eq!(calls.begin(99, LONG), None);
        calls.end_run();
        assert_eq!(calls.answer(2, result()), Err(MAX_WAITING_TOOL_CALLS as u64));
        assert_eq!(calls.begin(99, LONG), Some(MAX_WAITING_TOOL_CALLS as u64 + 1));
    }
}
