//! What became of commands, written down, and the end of those nobody reads.
//!
//! A command that runs keeps its sandbox from being idle. So somebody must know when it ends, also where its
//! caller does not wait: a watcher for each.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sandbox_api::{CommandId, SandboxId};
use tracing::warn;

use super::activity::{InUseMark, now_ms};
use super::order::{Running, State};
use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::AgentHandle;
use crate::model::command::{CommandStatus, Started};
use crate::model::{CommandRecord, CommandSpec, Ended, Program, limits};

impl Service {
    /// Writes down that a command has started.
    pub(super) fn note_start(&self, sandbox: &Sandbox, spec: &CommandSpec, started: Started) {
        sandbox.deadlines.add(spec.id.clone(), spec.timeout);
        self.store.history().started(CommandRecord {
            sandbox: sandbox.id().clone(),
            id: spec.id.clone(),
            argv: recorded_argv(&spec.program),
            cwd: spec.cwd.clone(),
            detached: started.detached,
            timeout_ms: started.timeout.as_millis() as u64,
            started_at_ms: started.at_ms,
            digest: spec.digest,
            ended: None,
        });
    }

    /// Writes down how a command has ended.
    pub(super) fn note_end(&self, sandbox: &Sandbox, command: &CommandId, ended: Ended) {
        self.store.history().ended(sandbox.id(), command, ended);
        sandbox.deadlines.remove(command);
        self.metrics().command_ended(&ended);
    }

    /// Waits for a command's end in the background, to write it down and to keep the sandbox until then.
    pub(super) fn watch(self: &Arc<Self>, sandbox: &Arc<Sandbox>, agent: &AgentHandle, command: &CommandId) {
        let watched = |sandbox: &Sandbox| -> bool {
            let mut watched = sandbox.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.insert(command.clone())
        };
        if !watched(sandbox) {
            return;
        }
        let mark = InUseMark::command(&sandbox.activity);
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let (agent, command) = (agent.clone(), command.clone());
        // Not among the tasks that a stop waits for: a command may run for hours.
        tokio::spawn(async move {
            let ended = tokio::select! {
                // The next daemon watches it.
                () = service.watching.cancelled() => return,
                ended = service.wait_across_reconnects(&sandbox, &agent, &command) => ended,
            };
            match ended {
                Ok(ended) => service.note_end(&sandbox, &command, ended),
                Err(error) => {
                    warn!(sandbox = %sandbox.id(), %command, error = &error as &dyn std::error::Error, "lost sight of a command");
                }
            }
            sandbox.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&command);
            drop(mark);
        });
    }

    /// Watches the commands that were started before `restored_at_ms` and have no end yet. Those that this daemon starts
    /// are watched by their own streams; a second watcher would keep their sandbox in use for a moment after their end.
    pub(super) async fn watch_of_before(self: &Arc<Self>, sandbox: &Arc<Sandbox>, restored_at_ms: i64) {
        let agent = match &*sandbox.order.shared().await {
            State::Running(Running { agent, .. }) => agent.clone(),
            _ => return,
        };
        match self.store.unended(sandbox.id()).await {
            Ok(commands) => {
                for command in commands.into_iter().filter(|command| command.started_at_ms < restored_at_ms) {
                    let ran = now_ms().saturating_sub(command.started_at_ms).max(0) as u64;
                    let rest = Duration::from_millis(command.timeout_ms.saturating_sub(ran));
                    sandbox.deadlines.restore(command.id.clone(), rest);
                    self.watch(sandbox, &agent, &command.id);
                }
            }
            Err(error) => {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not read which commands were under way");
            }
        }
    }

    /// The newest commands of a sandbox, whatever its state.
    pub async fn commands(&self, id: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        self.find(id)?;
        Ok(self.store.commands(id, limit).await?)
    }

    /// A command that the agent does not know any more, as it was written down.
    pub(super) async fn recorded(
        &self,
        id: &SandboxId,
        command: &CommandId,
    ) -> Result<Option<CommandStatus>, Error> {
        Ok(self.store.command(id, command).await?.map(status_of))
    }
}

/// A command that is not there any more. Where its end was not written down, nobody knows how it ended.
pub(super) fn status_of(record: CommandRecord) -> CommandStatus {
    let status = CommandStatus::from(record);
    CommandStatus { ended: status.ended.or(Some(Ended::LOST)), ..status }
}

fn recorded_argv(program: &Program) -> Vec<String> {
    match program {
        Program::Argv { program, args } => cut_argv(std::iter::once(program).chain(args).map(String::as_str)),
        Program::Script(script) => cut_argv(["bash", "-c", script].into_iter()),
    }
}

/// Program and arguments, cut where they are longer than is kept.
pub(super) fn cut_argv<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut left = limits::MAX_RECORDED_PROGRAM_BYTES;
    let mut kept = Vec::new();
    for text in all {
        if left == 0 {
            break;
        }
        let cut = text.floor_char_boundary(left.min(text.len()));
        kept.push(text[..cut].to_owned());
        // An argument may be empty, but never for nothing.
        left = left.saturating_sub(cut.max(1));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_program_is_cut_between_characters() {
        let long = Program::Script("é".repeat(4000));
        let kept = recorded_argv(&long);
        assert_eq!(kept[..2], ["bash", "-c"]);
        let bytes: usize = kept.iter().map(String::len).sum();
        assert!((4000..=limits::MAX_RECORDED_PROGRAM_BYTES).contains(&bytes), "{bytes}");
        let many = Program::Argv { program: "true".into(), args: vec![String::new(); 10_000] };
        assert!(recorded_argv(&many).len() <= limits::MAX_RECORDED_PROGRAM_BYTES);
    }
}
