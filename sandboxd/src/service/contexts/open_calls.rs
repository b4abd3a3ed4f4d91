//! Calls of tools that clients have received and not answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox_api::{CommandId, ContextId, SandboxId};

use super::toolset::Offered;
use crate::model::Principal;
use crate::service::history::EndedCall;

/// The open calls of all contexts. An entry is removed by the answer, or at the end of its run.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: Mutex<HashMap<CallKey, OpenCall>>,
}

/// A call: its sandbox, its context, and its number there.
pub(super) type CallKey = (SandboxId, ContextId, u64);

/// What the answer to a call needs.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    /// Who runs the code, and alone may answer.
    pub(super) by: Arc<Principal>,
    pub(super) tool: Arc<Offered>,
    /// Id of the run.
    pub(super) run: CommandId,
    pub(super) name: String,
    /// Beginning of the arguments as JSON.
    pub(super) arguments: String,
    pub(super) timeout: Duration,
    pub(super) started_at_ms: i64,
    pub(super) began: Instant,
}

impl OpenCall {
    /// The call for the history.
    pub(super) fn ended<'a>(&'a self, (_, context, number): &'a CallKey) -> EndedCall<'a> {
        EndedCall {
            context,
            number: *number,
            run: &self.run,
            name: &self.name,
            arguments: &self.arguments,
            timeout: self.timeout,
            started_at_ms: self.started_at_ms,
            duration: self.began.elapsed(),
        }
    }
}

impl OpenCalls {
    pub(super) fn add(&self, key: CallKey, call: OpenCall) {
        self.lock().insert(key, call);
    }

    pub(super) fn find(&self, key: &CallKey) -> Option<OpenCall> {
        self.lock().get(key).cloned()
    }

    /// Removes a call. Returns `None` if it is not open any more.
    pub(super) fn take(&self, key: &CallKey) -> Option<OpenCall> {
        self.lock().remove(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, OpenCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
