//! The interpreter of each sandbox, which runs one piece of code at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::provider::{InterpreterId, SandboxId};

/// Maximum number of sandboxes whose interpreters are known. The one that was used the longest time ago is forgotten: its
/// next code runs in a new interpreter.
const MAX_KNOWN: usize = 1024;

/// Right to run code in a sandbox, with its interpreter, if it has one.
pub(in crate::tools) type Turn = OwnedMutexGuard<Option<InterpreterId>>;

type Interpreter = Arc<tokio::sync::Mutex<Option<InterpreterId>>>;

/// Interpreters by sandbox, the last one used most recently.
#[derive(Debug, Default)]
pub(super) struct Turns {
    known: Mutex<VecDeque<(SandboxId, Interpreter)>>,
}

impl Turns {
    /// Waits for the code that runs in a sandbox.
    pub(super) async fn take(&self, sandbox: &SandboxId) -> Turn {
        self.interpreter(sandbox).lock_owned().await
    }

    fn interpreter(&self, sandbox: &SandboxId) -> Interpreter {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(of, _)| of == sandbox);
        let (_, interpreter) =
            place.and_then(|place| known.remove(place)).unwrap_or_else(|| (sandbox.clone(), Arc::default()));
        if known.len() >= MAX_KNOWN {
            known.pop_front();
        }
        known.push_back((sandbox.clone(), Arc::clone(&interpreter)));
        interpreter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn few_interpreters_are_known() {
        let turns = Turns::default();
        let sandbox = |n: usize| SandboxId::from(format!("sbx_{n}"));
        let interpreter: InterpreterId = "ctx_0123456789abcdefghijkl".parse().unwrap();
        for n in 0..MAX_KNOWN {
            *turns.take(&sandbox(n)).await = Some(interpreter.clone());
        }
        assert_eq!(*turns.take(&sandbox(0)).await, Some(interpreter.clone()));
        assert_eq!(*turns.take(&sandbox(MAX_KNOWN)).await, None);
        assert_eq!(*turns.take(&sandbox(0)).await, Some(interpreter), "it was used");
        assert_eq!(*turns.take(&sandbox(1)).await, None, "it has made room");
        assert_eq!(turns.known.lock().unwrap().len(), MAX_KNOWN);
    }
}
