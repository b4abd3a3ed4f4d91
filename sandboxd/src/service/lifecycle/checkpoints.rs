//! Records the activity of a sandbox since its last automatic snapshot.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sandbox_api::{CommandId, SnapshotId};
use tokio::sync::Notify;

use crate::model::{Checkpoints, limits};

/// When the next automatic snapshot of one sandbox is due, and what it will be called. A snapshot has its id before it is
/// made, so that the end of a command can name it.
#[derive(Debug)]
pub(in crate::service) struct CheckpointLedger {
    state: Mutex<State>,
    /// Something has ended, so a snapshot may be due earlier.
    has_ended: Notify,
}

#[derive(Debug)]
struct State {
    next: Option<Next>,
    last_made: Instant,
    /// Running commands, and whether they change no files.
    running: HashMap<CommandId, bool>,
    /// The last commands that have ended, and the snapshots after them.
    ended: VecDeque<(CommandId, SnapshotId)>,
    /// The snapshot after everything that has ended.
    latest: Option<SnapshotId>,
    has_task: bool,
}

/// The next automatic snapshot.
#[derive(Debug, Clone)]
struct Next {
    id: SnapshotId,
    /// The last command that has ended.
    command: Option<CommandId>,
    /// When the first and the last of what it follows have ended.
    ended: Option<(Instant, Instant)>,
}

/// An automatic snapshot that is due.
#[derive(Debug)]
pub(in crate::service) struct DueCheckpoint {
    pub(in crate::service) id: SnapshotId,
    /// The last command that has ended before it.
    pub(in crate::service) command: Option<CommandId>,
}

/// Something that may have changed files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) enum Act<'a> {
    /// Something has started and still runs.
    Started,
    /// This command has ended.
    Command(&'a CommandId),
    /// Files were changed through the API.
    Files,
}

impl CheckpointLedger {
    pub(super) fn new() -> Self {
        let state = Mutex::new(State {
            next: None,
            last_made: Instant::now(),
            running: HashMap::new(),
            ended: VecDeque::new(),
            latest: None,
            has_task: false,
        });
        Self { state, has_ended: Notify::new() }
    }

    /// Notes what has happened at `now`. `new_id` is used if there is no next snapshot yet. Returns whether the caller must
    /// start the task that waits until a snapshot is due. The end of a command counts once, and only if it was noted as
    /// running and may have changed files. It is no longer running and has its snapshot in one step, so that two tasks that
    /// see the end report the same.
    pub(in crate::service) fn note(
        &self,
        settings: Checkpoints,
        act: Act<'_>,
        now: Instant,
        new_id: SnapshotId,
    ) -> bool {
        let mut state = self.lock();
        if let Act::Command(command) = act
            && state.running.remove(command) != Some(false)
        {
            return false;
        }
        let next = state.next.get_or_insert(Next { id: new_id, command: None, ended: None });
        if act != Act::Started {
            next.note_end(act, now);
            // One that is made at an interval may come much later, so it is not named.
            let id = settings.after_command().then(|| next.id.clone());
            state.name(act, id);
            self.has_ended.notify_one();
        }
        !std::mem::replace(&mut state.has_task, true)
    }

    /// Notes that a command runs. The end of a harmless one, which changes no files, leads to no snapshot.
    pub(in crate::service) fn note_running(&self, command: &CommandId, is_harmless: bool) {
        self.lock().running.insert(command.clone(), is_harmless);
    }

    /// Notes that a command no longer runs, without a snapshot.
    pub(in crate::service) fn note_ended(&self, command: &CommandId) {
        self.lock().running.remove(command);
    }

    /// Waits until something has ended since the last call.
    pub(in crate::service) async fn until_ended(&self) {
        self.has_ended.notified().await;
    }

    /// Removes a snapshot that could not be made.
    pub(in crate::service) fn forget(&self, id: &SnapshotId) {
        let mut state = self.lock();
        state.ended.retain(|(_, ended)| ended != id);
        if state.latest.as_ref() == Some(id) {
            state.latest = None;
        }
    }

    /// Notes that the sandbox has the files of this snapshot now.
    pub(in crate::service) fn set_latest(&self, id: Option<SnapshotId>) {
        self.lock().latest = id;
    }

    /// The snapshot after a command, if it has ended since the daemon started and is one of the last.
    pub(in crate::service) fn after(&self, command: &CommandId) -> Option<SnapshotId> {
        self.lock().checkpoint_after(command).cloned()
    }

    /// The snapshot after everything that has ended since the daemon started. It is made, or about to be made.
    pub(in crate::service) fn latest(&self) -> Option<SnapshotId> {
        self.lock().latest.clone()
    }

    /// When the next snapshot is due. `None` if there is none, and then the task that waits for it ends.
    pub(in crate::service) fn due(&self, settings: Option<Checkpoints>) -> Option<Instant> {
        let mut state = self.lock();
        let due = settings.and_then(|settings| state.due(settings));
        state.has_task = due.is_some();
        due
    }

    /// Takes the next snapshot, which the caller makes.
    pub(in crate::service) fn take(&self) -> Option<DueCheckpoint> {
        self.lock().next.take().map(|Next { id, command, .. }| DueCheckpoint { id, command })
    }

    /// Notes that the attempt to make a snapshot has ended, successful or not.
    pub(in crate::service) fn note_made(&self, now: Instant) {
        self.lock().last_made = now;
    }

    /// Every change of the state is complete, so a panic elsewhere leaves it valid.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Next {
    fn note_end(&mut self, act: Act<'_>, now: Instant) {
        let first = self.ended.map_or(now, |(first, _)| first);
        self.ended = Some((first, now));
        if let Act::Command(command) = act {
            self.command = Some(command.clone());
        }
    }
}

impl State {
    /// Records the snapshot after something that has ended.
    fn name(&mut self, act: Act<'_>, id: Option<SnapshotId>) {
        self.latest.clone_from(&id);
        let (Act::Command(command), Some(id)) = (act, id) else { return };
        if self.ended.len() == limits::CHECKPOINTED_COMMANDS {
            self.ended.pop_front();
        }
        self.ended.push_back((command.clone(), id));
    }

    fn checkpoint_after(&self, command: &CommandId) -> Option<&SnapshotId> {
        self.ended.iter().rev().find(|(ended, _)| ended == command).map(|(_, id)| id)
    }

    fn due(&self, settings: Checkpoints) -> Option<Instant> {
        let next = self.next.as_ref()?;
        let after_command = next.ended.filter(|_| settings.after_command()).map(|(first, last)| {
            // Delayed by each further end, but not indefinitely.
            (last + limits::CHECKPOINT_QUIET).min(first + limits::CHECKPOINT_DELAY)
        });
        let periodic = settings.every().map(|every| self.last_made + every);
        after_command.into_iter().chain(periodic).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox_api::sandbox::Checkpoints as Wire;

    use super::*;

    fn settings(after_command: bool, every_ms: Option<u64>) -> Option<Checkpoints> {
        Checkpoints::new(&Wire { after_command: Some(after_command), every_ms, keep: None }).unwrap()
    }

    /// Commands ran before they end.
    fn note(ledger: &CheckpointLedger, act: Act<'_>, now: Instant) -> bool {
        if let Act::Command(command) = act {
            ledger.note_running(command, false);
        }
        ledger.note(settings(true, None).unwrap(), act, now, id())
    }

    fn command(number: u32) -> CommandId {
        format!("cmd_{number:016}").parse().unwrap()
    }

    fn id() -> SnapshotId {
        SnapshotId::random().unwrap()
    }

    #[test]
    fn commands_in_close_succession_share_one() {
        let ledger = CheckpointLedger::new();
        let each = settings(true, None);
        let begin = Instant::now();
        assert!(note(&ledger, Act::Command(&command(1)), begin), "the first needs a task");
        assert_eq!(ledger.due(each), Some(begin + limits::CHECKPOINT_QUIET));
        let later = begin + Duration::from_millis(60);
        assert!(!note(&ledger, Act::Command(&command(2)), later));
        assert_eq!(ledger.due(each), Some(later + limits::CHECKPOINT_QUIET));
        let first = ledger.after(&command(1)).unwrap();
        assert_eq!(ledger.after(&command(2)).as_ref(), Some(&first));
        assert_eq!(ledger.latest().as_ref(), Some(&first));

        let due = ledger.take().unwrap();
        assert_eq!((&due.id, due.command), (&first, Some(command(2))));
        note(&ledger, Act::Command(&command(3)), later);
        assert_ne!(ledger.after(&command(3)), Some(first.clone()), "it may have missed its end");
        assert_eq!(ledger.after(&command(1)), Some(first), "as long as it is remembered");
    }

    #[test]
    fn only_the_end_of_a_running_command_leads_to_a_snapshot_and_once() {
        let ledger = CheckpointLedger::new();
        ledger.note_running(&command(1), true);
        ledger.note_running(&command(2), false);
        let end = |number| {
            let command = command(number);
            let act = Act::Command(&command);
            let needs_task = ledger.note(settings(true, None).unwrap(), act, Instant::now(), id());
            (needs_task, ledger.after(&command))
        };
        assert_eq!(end(1), (false, None), "it changes no files");
        let (needs_task, first) = end(2);
        assert!(needs_task && first.is_some());
        ledger.take();
        assert_eq!(end(2), (false, first), "another task has seen the same end");
        assert_eq!(end(3), (false, None), "it ended before");
    }

    #[tokio::test]
    async fn an_end_wakes_the_task_that_waits_for_a_later_time() {
        let ledger = CheckpointLedger::new();
        note(&ledger, Act::Started, Instant::now());
        assert!(tokio::time::timeout(Duration::ZERO, ledger.until_ended()).await.is_err());
        note(&ledger, Act::Command(&command(1)), Instant::now());
        ledger.until_ended().await;
    }

    #[test]
    fn a_snapshot_that_could_not_be_made_is_not_named_any_more() {
        let ledger = CheckpointLedger::new();
        note(&ledger, Act::Command(&command(1)), Instant::now());
        let failed = ledger.take().unwrap().id;
        ledger.forget(&failed);
        assert_eq!((ledger.after(&command(1)), ledger.latest()), (None, None));
        ledger.set_latest(Some(failed.clone()));
        assert_eq!(ledger.latest(), Some(failed));
    }

    #[test]
    fn commands_that_end_again_and_again_do_not_delay_it_for_ever() {
        let ledger = CheckpointLedger::new();
        let begin = Instant::now();
        for number in 0..100 {
            note(&ledger, Act::Command(&command(number)), begin + limits::CHECKPOINT_QUIET / 2 * number);
        }
        assert_eq!(ledger.due(settings(true, None)), Some(begin + limits::CHECKPOINT_DELAY));
        assert_eq!(ledger.after(&command(0)), None, "only the last ones are remembered");
        assert!(ledger.after(&command(99)).is_some());
    }

    #[test]
    fn without_a_cause_none_is_due_and_the_task_ends() {
        let ledger = CheckpointLedger::new();
        assert_eq!(ledger.due(settings(true, Some(60_000))), None);
        let now = Instant::now();
        assert!(note(&ledger, Act::Started, now));
        assert_eq!(ledger.due(settings(true, None)), None, "nothing has ended");
        assert_eq!(ledger.latest(), None);
        assert!(note(&ledger, Act::Started, now), "the task had ended");
        ledger.note_made(now);
        let periodic = settings(false, Some(60_000));
        assert_eq!(ledger.due(periodic), Some(now + Duration::from_secs(60)));
        ledger.note_running(&command(1), false);
        ledger.note(periodic.unwrap(), Act::Command(&command(1)), now, id());
        assert_eq!(ledger.after(&command(1)), None, "it may come much later");
        assert!(!note(&ledger, Act::Files, now));
        assert_eq!(ledger.due(None), None);
    }
}
