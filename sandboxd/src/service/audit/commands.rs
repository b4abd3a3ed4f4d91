//! What the record has of a command.

use super::Audit;
use crate::audit::Entry;
use crate::model::audit::CommandDetail;
use crate::model::context::RunSpec;
use crate::model::secret::redacted;
use crate::model::{CommandSpec, Program, Secret, limits};

/// Length of a program with its arguments up to which their text is recorded, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

impl Audit {
    /// Adds a command to a line.
    pub(super) fn with_command(&self, entry: Entry, spec: &CommandSpec, secrets: &[Secret]) -> Entry {
        let argv = argv_of(&spec.program);
        let bytes = serde_json::to_vec(&argv).unwrap_or_default();
        let entry = entry
            .with("commandId", spec.id.as_str())
            .with("argvMac", self.instance.command_mac(&bytes))
            .with("argvBytes", argv.iter().map(|text| text.len()).sum::<usize>());
        match self.settings.commands {
            CommandDetail::Hash => entry,
            CommandDetail::Text => entry.with("argv", shown(&argv, secrets)).with("cwd", &spec.cwd),
        }
    }
}

impl Audit {
    /// Adds a run of code to a line.
    pub(super) fn with_run(&self, entry: Entry, spec: &RunSpec, secrets: &[Secret]) -> Entry {
        let entry = entry
            .with("runId", spec.id.as_str())
            .with("codeMac", self.instance.command_mac(spec.code.as_bytes()))
            .with("codeBytes", spec.code.len());
        match self.settings.commands {
            CommandDetail::Hash => entry,
            CommandDetail::Text => {
                entry.with("code", shown(&[&spec.code], secrets).map(|texts| texts.concat()))
            }
        }
    }
}

/// Program and arguments.
fn argv_of(program: &Program) -> Vec<&str> {
    match program {
        Program::Argv { program, args } => std::iter::once(program).chain(args).map(String::as_str).collect(),
        Program::Script(script) => vec!["bash", "-c", script],
    }
}

/// The beginning of program and arguments, without the values of secrets. `None` if they are too long: a secret could be cut
/// before it is found.
fn shown(argv: &[&str], secrets: &[Secret]) -> Option<Vec<String>> {
    if argv.iter().map(|text| text.len() + 1).sum::<usize>() > MAX_TEXT_BYTES {
        return None;
    }
    let mut left = limits::MAX_RECORDED_PROGRAM_BYTES;
    let mut shown = Vec::new();
    for text in argv {
        if left == 0 {
            break;
        }
        let text = redacted(text, secrets);
        let cut = text.floor_char_boundary(left.min(text.len()));
        shown.push(text[..cut].to_owned());
        left = left.saturating_sub(cut.max(1));
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_no_secret_and_a_bound() {
        let secrets = [Secret { name: "KEY".into(), value: "0123456789".into() }];
        let script = format!("curl -H 0123456789 {}", "x".repeat(5_000));
        let found = shown(&["bash", "-c", &script], &secrets).unwrap();
        assert!(found[2].starts_with("curl -H [KEY] x"), "{}", &found[2][..40]);
        assert_eq!(found.iter().map(String::len).sum::<usize>(), limits::MAX_RECORDED_PROGRAM_BYTES);
        assert_eq!(shown(&[&"x".repeat(MAX_TEXT_BYTES)], &secrets), None);
    }
}
