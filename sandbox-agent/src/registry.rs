//! The commands that the agent keeps, and a summary of those whose log it has dropped.
//!
//! A command's summary is kept after its log is dropped until sandboxd has recorded its end, so that its id is never used
//! twice. Summaries are small and bounded.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_protocol::v1;
use bytes::Bytes;

use crate::command::{Command, Spec};
use crate::limits::{
    COMMANDS_PER_PAGE, LISTED_TEXT_BYTES, MAX_ENDED_COMMANDS, MAX_UNRECORDED_COMMANDS, REMEMBERED_TEXT_BYTES,
};
use crate::termination::Target;

/// A command without its log.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    number: u64,
    digest: Bytes,
    pub(crate) status: v1::CommandStatus,
}

impl Remembered {
    /// Copies what is known of a command. Its directory and arguments together are cut to `text_bytes`.
    fn of(command: &Command, text_bytes: usize) -> Self {
        let Spec { number, digest, argv, cwd, .. } = &command.spec;
        let mut left = text_bytes;
        let cwd = cut(&cwd.to_string_lossy(), &mut left);
        let mut kept = Vec::new();
        for arg in argv {
            if left == 0 {
                break;
            }
            kept.push(cut(arg, &mut left));
        }
        let status = v1::CommandStatus { cwd, argv: kept, ..command.status() };
        Self { number: *number, digest: digest.clone(), status }
    }

    fn id(&self) -> &str {
        self.status.started.as_ref().map_or("", |started| &started.command_id)
    }
}

/// Returns the beginning of `text` and subtracts it from `left`. An empty text costs a byte, so that their number is
/// bounded.
fn cut(text: &str, left: &mut usize) -> String {
    let kept = &text[..text.floor_char_boundary(*left)];
    *left = left.saturating_sub(kept.len().max(1));
    kept.to_owned()
}

/// A command that was started under an id.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Kept(Arc<Command>),
    Remembered(Box<Remembered>),
}

impl Known {
    fn digest(&self) -> &Bytes {
        match self {
            Self::Kept(command) => &command.spec.digest,
            Self::Remembered(remembered) => &remembered.digest,
        }
    }

    fn into_wire(self) -> v1::KnownCommand {
        let known = match self {
            Self::Kept(command) => Remembered::of(&command, LISTED_TEXT_BYTES),
            Self::Remembered(remembered) => *remembered,
        };
        v1::KnownCommand { number: known.number, status: Some(known.status), request_digest: known.digest }
    }

    /// Whether a request with this digest started the command. True if one of the digests is not known.
    pub(crate) fn is_from(&self, digest: &Bytes) -> bool {
        let known = self.digest();
        known.is_empty() || digest.is_empty() || known == digest
    }

    pub(crate) fn status(&self) -> v1::CommandStatus {
        match self {
            Self::Kept(command) => command.status(),
            Self::Remembered(remembered) => remembered.status.clone(),
        }
    }
}

/// All commands that the agent knows.
#[derive(Debug, Default)]
pub(crate) struct CommandRegistry {
    by_id: HashMap<String, Arc<Command>>,
    /// Ids of commands that have no process yet.
    pub(crate) starting: HashSet<String>,
    /// Ids in the order in which their commands ended.
    ended: VecDeque<String>,
    /// Numbers of the ended commands in `by_id` that sandboxd has recorded.
    recorded: HashSet<u64>,
    /// By number.
    remembered: BTreeMap<u64, Remembered>,
    remembered_ids: HashMap<String, u64>,
    last_number: u64,
}

impl CommandRegistry {
    /// Returns the number of the next command.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn insert(&mut self, command: &Arc<Command>) {
        self.by_id.insert(command.spec.id.clone(), Arc::clone(command));
    }

    /// Returns the command with this id and its log.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Command>> {
        self.by_id.get(id).cloned()
    }

    /// Returns what is known under this id.
    pub(crate) fn find(&self, id: &str) -> Option<Known> {
        match self.by_id.get(id) {
            Some(command) => Some(Known::Kept(Arc::clone(command))),
            None => {
                let number = self.remembered_ids.get(id)?;
                self.remembered.get(number).cloned().map(Box::new).map(Known::Remembered)
            }
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.by_id.len() + self.starting.len() - self.ended.len()
    }

    /// Returns the running commands.
    pub(crate) fn targets(&self) -> Vec<Arc<dyn Target + Send + Sync>> {
        let running = self.by_id.values().filter(|command| command.end_now().is_none());
        running.map(|command| Arc::clone(command) as Arc<dyn Target + Send + Sync>).collect()
    }

    /// Adds an ended command. Drops the oldest ended commands over the limit, except those that a reader still needs.
    pub(crate) fn add_ended(&mut self, command: &Command) {
        self.ended.push_back(command.spec.id.clone());
        let mut at = 0;
        while self.ended.len() > MAX_ENDED_COMMANDS && at < self.ended.len() {
            let oldest = self.ended.get(at).and_then(|id| self.by_id.get(id)).cloned();
            match oldest {
                Some(command) if command.is_discardable() => {
                    command.discard_output();
                    self.ended.remove(at);
                    self.by_id.remove(&command.spec.id);
                    if !self.recorded.remove(&command.spec.number) {
                        self.remember(&command);
                    }
                }
                _ => at += 1,
            }
        }
    }

    fn remember(&mut self, command: &Command) {
        let Spec { id, number, .. } = &command.spec;
        self.remembered.insert(*number, Remembered::of(command, REMEMBERED_TEXT_BYTES));
        self.remembered_ids.insert(id.clone(), *number);
        while self.remembered.len() > MAX_UNRECORDED_COMMANDS {
            if let Some((_, oldest)) = self.remembered.pop_first() {
                self.remembered_ids.remove(oldest.id());
            }
        }
    }

    /// Records that sandboxd has recorded the ends of these commands.
    pub(crate) fn set_recorded(&mut self, numbers: &HashSet<u64>) {
        for number in numbers {
            if let Some(remembered) = self.remembered.remove(number) {
                self.remembered_ids.remove(remembered.id());
            }
        }
        let ended = self.ended.iter().filter_map(|id| self.by_id.get(id)).map(|command| command.spec.number);
        self.recorded.extend(ended.filter(|number| numbers.contains(number)));
    }

    /// Returns a page of the commands after `after` whose end is not recorded, in the order of their start.
    pub(crate) fn unrecorded(&self, after: u64) -> v1::ListCommandsReply {
        let kept = self.by_id.values().filter(|command| !self.recorded.contains(&command.spec.number));
        let kept = kept.map(|command| (command.spec.number, Known::Kept(Arc::clone(command))));
        let remembered = self.remembered.range(after.saturating_add(1)..).take(COMMANDS_PER_PAGE + 1);
        let remembered =
            remembered.map(|(number, known)| (*number, Known::Remembered(Box::new(known.clone()))));
        let mut known: Vec<_> = kept.filter(|(number, _)| *number > after).chain(remembered).collect();
        known.sort_unstable_by_key(|(number, _)| *number);
        let more = known.len() > COMMANDS_PER_PAGE;
        known.truncate(COMMANDS_PER_PAGE);
        v1::ListCommandsReply {
            commands: known.into_iter().map(|(_, known)| known.into_wire()).collect(),
            more,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::command::{self, Spec};

    /// Commands that have ended, numbered from 1.
    fn registry(count: usize) -> CommandRegistry {
        let mut registry = CommandRegistry::default();
        for _ in 0..count {
            let number = registry.next_number();
            let spec = Spec {
                id: format!("cmd_{number}"),
                number,
                digest: Bytes::from_static(b"digest"),
                argv: vec!["é".repeat(REMEMBERED_TEXT_BYTES)],
                cwd: PathBuf::from("/"),
                ..command::tests::spec()
            };
            let command = command::tests::command(spec, &Arc::default());
            registry.insert(&command);
            command.finish(v1::Ended::default());
            registry.add_ended(&command);
        }
        registry
    }

    fn all(registry: &CommandRegistry) -> Vec<u64> {
        let (mut numbers, mut after) = (Vec::new(), 0);
        loop {
            let page = registry.unrecorded(after);
            assert!(page.commands.len() <= COMMANDS_PER_PAGE);
            numbers.extend(page.commands.iter().map(|command| command.number));
            after = numbers.last().copied().unwrap_or_default();
            if !page.more {
                return numbers;
            }
        }
    }

    #[test]
    fn a_command_is_remembered_until_its_end_is_recorded() {
        let mut registry = registry(MAX_ENDED_COMMANDS + 10);
        let count = MAX_ENDED_COMMANDS as u64 + 10;
        assert!(matches!(registry.find("cmd_1"), Some(Known::Remembered(_))));
        assert!(matches!(registry.find("cmd_11"), Some(Known::Kept(_))));
        assert_eq!(all(&registry), (1..=count).collect::<Vec<_>>());
        registry.set_recorded(&(1..count).collect());
        assert_eq!(all(&registry), [count]);
        assert!(registry.find("cmd_1").is_none());
        assert!(matches!(registry.find("cmd_11"), Some(Known::Kept(_))), "its output is still kept");
    }

    #[test]
    fn remembered_commands_are_bounded() {
        let registry = registry(MAX_ENDED_COMMANDS + MAX_UNRECORDED_COMMANDS + 5);
        assert!(registry.find("cmd_5").is_none());
        let Some(Known::Remembered(oldest)) = registry.find("cmd_6") else { panic!("it was dropped") };
        let text: usize = oldest.status.argv.iter().map(String::len).sum();
        assert!(text <= REMEMBERED_TEXT_BYTES, "{text}");
        assert_eq!(registry.remembered_ids.len(), MAX_UNRECORDED_COMMANDS);
    }

    #[test]
    fn requests_are_compared_if_both_digests_are_known() {
        let registry = registry(1);
        let known = registry.find("cmd_1").unwrap();
        let is_from = |digest: &'static [u8]| known.is_from(&Bytes::from_static(digest));
        assert!(is_from(b"digest") && is_from(b""));
        assert!(!is_from(b"another"));
    }
}
