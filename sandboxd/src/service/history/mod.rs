//! History of commands: which ones ran, and how they ended.
//!
//! History is written asynchronously, so the store never slows a command down. The next daemon recovers from the agents
//! what a killed daemon had not written yet.

mod deadlines;
mod in_context;
mod ledger;
mod oom;
mod oom_times;
mod recording;

use std::sync::Arc;

use sandbox_api::CommandId;
use tracing::warn;

pub(in crate::service) use self::in_context::EndedCall;
pub(in crate::service) use self::ledger::Ledger;
use self::oom_times::Listening;
use super::{Context, Error};
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::model::command::{CommandStatus, Started};
use crate::model::{CommandRecord, CommandSpec, Ended, Program, limits};
use crate::store::Store;

/// Records commands and how they ended.
#[derive(Debug)]
pub(in crate::service) struct History {
    engine: Engine,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    /// Whether the engine reports containers that ran out of memory.
    listening: Listening,
}

impl History {
    pub(in crate::service) fn new(context: &Context) -> Self {
        Self {
            engine: context.engine.clone(),
            store: Arc::clone(&context.store),
            metrics: Arc::clone(&context.metrics),
            listening: Listening::default(),
        }
    }

    /// Records that the engine's events have been received since `since_ms`.
    pub(in crate::service) fn begin_listening(&self, since_ms: i64) {
        self.listening.begin(since_ms);
    }

    /// Records that the engine's events are no longer received.
    pub(in crate::service) fn end_listening(&self) {
        self.listening.end();
    }

    /// Number of entries that were dropped because the store was too slow.
    pub(in crate::service) fn dropped(&self) -> u64 {
        self.store.history().dropped()
    }

    /// Whether entries were dropped since the last call.
    pub(in crate::service) fn was_dropped(&self) -> bool {
        self.store.history().was_dropped()
    }

    /// Records that a command has started.
    pub(in crate::service) fn note_start(&self, ledger: &Ledger, spec: &CommandSpec, started: Started) {
        ledger.deadlines.add(spec.id.clone(), spec.timeout);
        self.store.history().started(CommandRecord {
            sandbox: ledger.sandbox.clone(),
            id: spec.id.clone(),
            argv: recorded_argv(&spec.program),
            cwd: spec.cwd.clone(),
            detached: started.detached,
            passive: spec.passive,
            timeout_ms: started.timeout.as_millis() as u64,
            started_at_ms: started.at_ms,
            digest: spec.digest,
            ended: None,
        });
    }

    /// Records how a command has ended.
    pub(in crate::service) fn note_end(&self, ledger: &Ledger, command: &CommandId, ended: Ended) {
        self.metrics.command_ended(&ended);
        self.store.history().ended(&ledger.sandbox, command, ended);
        ledger.deadlines.remove(command);
    }

    /// Records all commands without an end as lost, because their container is gone.
    pub(in crate::service) async fn end_all(&self, ledger: &Ledger) {
        match self.store.unended(&ledger.sandbox).await {
            Ok(commands) => {
                for command in commands {
                    // Its watcher may not have recorded yet that a restart ended it.
                    let ended = ledger.deadlines.end_of(&command.id).unwrap_or(Ended::LOST);
                    self.store.history().ended(&ledger.sandbox, &command.id, ended);
                }
            }
            Err(error) => {
                warn!(sandbox = %ledger.sandbox, error = &error as &dyn std::error::Error, "could not record the end of lost commands");
            }
        }
    }

    /// Returns the end of a command that its agent no longer knows: by a restart of its container, or as recorded in the
    /// store. Otherwise it is lost.
    pub(in crate::service) async fn end_of_lost(&self, ledger: &Ledger, command: &CommandId) -> Ended {
        if let Some(ended) = ledger.deadlines.end_of(command) {
            return ended;
        }
        let recorded = self.recorded(ledger, command).await.ok().flatten();
        recorded.and_then(|status| status.ended).unwrap_or(Ended::LOST)
    }

    /// Returns a command that its agent no longer knows: from the store, and with the end by a restart of its container if
    /// that is not recorded yet.
    pub(in crate::service) async fn recorded(
        &self,
        ledger: &Ledger,
        command: &CommandId,
    ) -> Result<Option<CommandStatus>, Error> {
        // First, because an end leaves the deadlines after it was recorded.
        let by_restart = ledger.deadlines.end_of(command);
        let Some(mut record) = self.store.command(&ledger.sandbox, command).await? else {
            return Ok(None);
        };
        record.ended = record.ended.or(by_restart);
        Ok(Some(status_of(record)))
    }
}

/// Status of a command that no agent knows any more. If its end was not recorded, it is lost.
pub(in crate::service) fn status_of(record: CommandRecord) -> CommandStatus {
    let status = CommandStatus::from(record);
    CommandStatus { ended: status.ended.or(Some(Ended::LOST)), ..status }
}

fn recorded_argv(program: &Program) -> Vec<String> {
    match program {
        Program::Argv { program, args } => cut_argv(std::iter::once(program).chain(args).map(String::as_str)),
        Program::Script(script) => cut_argv(["bash", "-c", script].into_iter()),
    }
}

/// Truncates program and arguments to the length that is recorded.
fn cut_argv<'a>(all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut left = limits::MAX_RECORDED_PROGRAM_BYTES;
    let mut kept = Vec::new();
    for text in all {
        if left == 0 {
            break;
        }
        let cut = text.floor_char_boundary(left.min(text.len()));
        kept.push(text[..cut].to_owned());
        // An empty argument counts as one byte, so that their number is limited too.
        left = left.saturating_sub(cut.max(1));
    }
    kept
}

#[cfg(test)]
mod tests {
    use sandbox_api::SandboxId;
    use sandbox_api::command::EndReason;

    use super::*;
    use crate::model::command::KilledBy;
    use crate::model::{EngineAddress, Instance, SandboxRecord, SandboxSpec, Stage, Transport, UidSlot};

    /// A history without an engine, and a sandbox in its store.
    async fn history(state_dir: &std::path::Path) -> (History, Ledger) {
        let metrics = Arc::new(Metrics::new());
        let address = EngineAddress::Unix(state_dir.join("no.sock"));
        let instance = Arc::new(Instance::new([0; 32]));
        let engine = Engine::new(address, instance, None, Arc::clone(&metrics)).unwrap();
        let store = Arc::new(Store::open(state_dir).await.unwrap());
        let sandbox = SandboxRecord {
            id: SandboxId::random().unwrap(),
            slot: UidSlot::LAST,
            transport: Transport::Socket,
            spec: SandboxSpec::new("chat:1".parse().unwrap()),
            disk: None,
            stage: Stage::Running,
            created_at_ms: 0,
            last_active_ms: 0,
            parked_at_age_ms: None,
            disk_bytes: None,
            checkpoint_pending: false,
            is_tentative: false,
        };
        store.put(&sandbox).await.unwrap();
        (History { engine, store, metrics, listening: Listening::default() }, Ledger::new(sandbox.id))
    }

    #[tokio::test]
    async fn an_end_by_a_restart_is_known_before_it_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let (history, ledger) = history(dir.path()).await;
        let command: CommandId = "cmd_0123456789abcdef".parse().unwrap();
        let record = CommandRecord {
            sandbox: ledger.sandbox.clone(),
            id: command.clone(),
            argv: Vec::new(),
            cwd: String::new(),
            detached: false,
            passive: false,
            timeout_ms: 1000,
            started_at_ms: 0,
            digest: None,
            ended: None,
        };
        history.store.history().started(record);
        ledger.deadlines.add(command.clone(), std::time::Duration::from_secs(1));
        let ended = async || history.recorded(&ledger, &command).await.unwrap().unwrap().ended.unwrap();
        assert_eq!(ended().await, Ended::LOST);
        ledger.record_restart(Some(&(command.clone(), EndReason::Timeout)));
        let end = |ended: Ended| (ended.reason, ended.killed_by);
        let by_restart = (EndReason::Timeout, Some(KilledBy::Restart));
        assert_eq!(end(ended().await), by_restart);
        // Another task may record the end of everything that ran in the container before the command's watcher does.
        history.end_all(&ledger).await;
        ledger.deadlines.remove(&command);
        assert_eq!(end(ended().await), by_restart);
    }

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
