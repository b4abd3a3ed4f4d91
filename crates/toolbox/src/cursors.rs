//! How far each command's output was read, so that the next call continues there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use sandbox_api::{CommandId, SandboxId};

/// Maximum number of commands. The position of the oldest is removed: its output is then read from the start.
const MAX_COMMANDS: usize = 10_000;

/// A command of a sandbox. Clients choose command ids, so two sandboxes may have the same.
type Key = (SandboxId, CommandId);

/// Sequence number of the last record that was read, by command.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    by_command: HashMap<Key, u64>,
    /// Commands in the order of their first read.
    order: VecDeque<Key>,
}

impl Cursors {
    /// Position in the output of a command. 0 is the start.
    pub(crate) fn get(&self, sandbox: &SandboxId, command: &CommandId) -> u64 {
        let key = (sandbox.clone(), command.clone());
        let positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        positions.by_command.get(&key).copied().unwrap_or(0)
    }

    pub(crate) fn set(&self, sandbox: &SandboxId, command: &CommandId, position: u64) {
        let key = (sandbox.clone(), command.clone());
        let mut positions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if positions.by_command.insert(key.clone(), position).is_some() {
            return;
        }
        positions.order.push_back(key);
        if positions.order.len() > MAX_COMMANDS
            && let Some(oldest) = positions.order.pop_front()
        {
            positions.by_command.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_position_is_forgotten() {
        let cursors = Cursors::default();
        let command = |number: usize| -> CommandId { format!("cmd_{number:016}").parse().unwrap() };
        let sandbox: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        for number in 0..=MAX_COMMANDS {
            cursors.set(&sandbox, &command(number), 7);
            cursors.set(&sandbox, &command(number), 9);
        }
        let known = |number| cursors.get(&sandbox, &command(number));
        assert_eq!((known(0), known(1)), (0, 9));
    }
}
