//! When each command began, and which hosts the user was asked about.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbox_api::{CommandId, SandboxId};
use tokio::time::Instant;

/// Maximum number of questions about one command.
pub(crate) const MAX_QUESTIONS: usize = 5;

/// Maximum number of commands. The oldest is removed.
const MAX_COMMANDS: usize = 10_000;

type Key = (SandboxId, CommandId);

/// The questions about each command, so that none is asked twice.
#[derive(Debug, Default)]
pub(crate) struct ApprovalLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by_command: HashMap<Key, CommandEntry>,
    /// Commands in the order of their start.
    order: VecDeque<Key>,
}

/// A command, with the hosts that the user was asked about.
#[derive(Debug)]
struct CommandEntry {
    began: Instant,
    hosts: Vec<String>,
}

/// Whether the user is asked about a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskDecision {
    Now,
    /// An earlier call has asked.
    Before,
    /// There were as many questions about the command as there may be.
    TooMany,
}

impl ApprovalLog {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a command, unless it is known. Returns since when its denials count.
    pub(crate) fn begin(&self, sandbox: &SandboxId, command: &CommandId, began: Instant) -> Instant {
        let key = (sandbox.clone(), command.clone());
        let mut state = self.lock();
        if let Some(known) = state.by_command.get(&key) {
            return known.began;
        }
        state.by_command.insert(key.clone(), CommandEntry { began, hosts: Vec::new() });
        state.order.push_back(key);
        if state.order.len() > MAX_COMMANDS
            && let Some(oldest) = state.order.pop_front()
        {
            state.by_command.remove(&oldest);
        }
        began
    }

    /// Decides whether the user is asked about a host of a registered command. If so, it counts as asked.
    pub(crate) fn ask(&self, sandbox: &SandboxId, command: &CommandId, host: &str) -> AskDecision {
        let mut state = self.lock();
        match state.by_command.get_mut(&(sandbox.clone(), command.clone())) {
            Some(entry) if entry.hosts.iter().any(|known| known == host) => AskDecision::Before,
            Some(entry) if entry.hosts.len() < MAX_QUESTIONS => {
                entry.hosts.push(host.to_owned());
                AskDecision::Now
            }
            Some(_) | None => AskDecision::TooMany,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(number: usize) -> CommandId {
        format!("cmd_{number:016}").parse().unwrap()
    }

    #[test]
    fn each_host_is_asked_about_once_for_each_command() {
        let (log, now) = (ApprovalLog::default(), Instant::now());
        let sandbox: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        let ask = |number, host| log.ask(&sandbox, &command(number), host);
        assert_eq!(ask(0, "a"), AskDecision::TooMany, "the command is unknown");
        for number in 0..2 {
            assert_eq!(log.begin(&sandbox, &command(number), now), now);
            assert_eq!([ask(number, "a"), ask(number, "a")], [AskDecision::Now, AskDecision::Before]);
        }
        let more = ["b", "c", "d", "e", "f"].map(|host| ask(0, host));
        assert_eq!(
            more,
            [AskDecision::Now, AskDecision::Now, AskDecision::Now, AskDecision::Now, AskDecision::TooMany]
        );
        let later = now + std::time::Duration::from_secs(1);
        assert_eq!(log.begin(&sandbox, &command(0), later), now, "a known command keeps its start");
    }

    #[test]
    fn the_oldest_command_is_removed() {
        let (log, now) = (ApprovalLog::default(), Instant::now());
        let sandbox: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        for number in 0..=MAX_COMMANDS {
            log.begin(&sandbox, &command(number), now);
        }
        let ask = |number| log.ask(&sandbox, &command(number), "a");
        assert_eq!((ask(0), ask(1)), (AskDecision::TooMany, AskDecision::Now));
    }
}
