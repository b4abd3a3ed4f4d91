//! Suggestions for unknown commands.
//!
//! clap suggests commands with a similar spelling, which may mean the opposite: `remove` for `resume`. Names that other
//! tools use are translated here. A command that removes something is suggested only for a likely typing error.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Names of other tools, and the command with the same effect.
pub const SYNONYMS: [(&str, &str); 23] = [
    ("attach", "shell"),
    ("bash", "shell"),
    ("checkpoint", "snapshot"),
    ("clone", "fork"),
    ("console", "shell"),
    ("copy", "cp"),
    ("create", "run"),
    ("destroy", "stop"),
    ("history", "logs"),
    ("hibernate", "park"),
    ("info", "inspect"),
    ("kill", "stop"),
    ("open", "shell"),
    ("pause", "park"),
    ("resume", "shell"),
    ("rollback", "restore"),
    ("ssh", "shell"),
    ("start", "run"),
    ("suspend", "park"),
    ("top", "ps"),
    ("undo", "restore"),
    ("unpark", "shell"),
    ("wake", "shell"),
];

/// Commands that remove something.
const DESTRUCTIVE: [&str; 6] = ["accept-engine", "delete", "prune", "remove", "rm", "stop"];

/// Maximum number of edits between a typing error and the command.
const MAX_EDITS: usize = 1;

/// Corrects the suggestion in an error about an unknown command. Other errors are unchanged.
pub fn with_safe_suggestion(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand).cloned() else {
        return error;
    };
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let suggested = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(suggested)) => suggested,
        Some(ContextValue::String(suggested)) => vec![suggested],
        _ => Vec::new(),
    };
    let safe = match SYNONYMS.iter().find(|(name, _)| *name == given) {
        Some((_, command)) => vec![(*command).to_owned()],
        None => suggested.into_iter().filter(|command| may_be_meant(&given, command)).collect(),
    };
    if !safe.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(safe));
    }
    error
}

/// Whether a suggestion is harmless, or the given name is a typing error or an abbreviation of it.
fn may_be_meant(given: &str, command: &str) -> bool {
    !DESTRUCTIVE.contains(&command)
        || command.starts_with(given)
        || strsim::osa_distance(given, command) <= MAX_EDITS
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn suggested(given: &str) -> Vec<String> {
        let names = ["cp", "exec", "inspect", "logs", "park", "prune", "ps", "run", "shell"];
        let stop = Command::new("stop").visible_aliases(["rm", "delete", "remove"]);
        let command = Command::new("sandboxd").subcommands(names.map(Command::new)).subcommand(stop);
        let error = command.try_get_matches_from(["sandboxd", given]).unwrap_err();
        match with_safe_suggestion(error).get(ContextKind::SuggestedSubcommand) {
            Some(ContextValue::Strings(suggested)) => suggested.clone(),
            Some(other) => panic!("{other:?}"),
            None => Vec::new(),
        }
    }

    #[test]
    fn no_suggestion_has_the_opposite_effect() {
        for (given, command) in SYNONYMS {
            assert_eq!(suggested(given), [command], "{given}");
        }
        assert_eq!(suggested("prone"), ["prune"]);
        assert_eq!(suggested("stpo"), ["stop"]);
        assert_eq!(suggested("exce"), ["exec"]);
        for harmless in ["unprune", "store", "removable", "step-into"] {
            assert_eq!(suggested(harmless), Vec::<String>::new(), "{harmless}");
        }
    }
}
