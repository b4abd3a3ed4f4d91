//! Exit codes of the commands. `docs/operations.md` lists them.

/// The command failed.
pub const FAILURE: u8 = 1;

/// The program exists but cannot be started, as in a shell (POSIX, section 2.8.2).
pub const NOT_EXECUTABLE: u8 = 126;

/// The program does not exist, as in a shell.
pub const NOT_FOUND: u8 = 127;

/// A shell adds this to the number of the signal that ended a program.
const SIGNAL_BASE: i32 = 128;

/// The exit code for a signal that ended the command.
pub fn of_signal(number: i32) -> u8 {
    of_command(SIGNAL_BASE + number)
}

/// The exit code of a command in a sandbox.
pub(super) fn of_command(exit_code: i32) -> u8 {
    u8::try_from(exit_code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The first column of the table of exit codes.
    fn documented() -> BTreeSet<String> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/operations.md");
        let text = std::fs::read_to_string(file).unwrap();
        let table = text.lines().skip_while(|line| !line.starts_with("| exit code |")).skip(2);
        let rows = table.take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| Some(row.split('|').nth(1)?.trim().to_owned())).collect()
    }

    /// Exit code for wrong usage, which the argument parser defines.
    fn usage() -> i32 {
        let parser = clap::Command::new("sandboxd");
        parser.try_get_matches_from(["sandboxd", "--no-such-option"]).unwrap_err().exit_code()
    }

    /// One line for each exit code, with its meaning. Scripts compare the numbers, so the lines only grow.
    /// `exit_codes.txt` lists those that were published. New ones are added to the file with
    /// `PUBLISH=1 cargo test -p sandboxd-cli exit_code`.
    fn codes() -> BTreeSet<String> {
        let constants = [
            (0, "success"),
            (FAILURE.into(), "failure"),
            (usage(), "wrong usage"),
            (NOT_EXECUTABLE.into(), "not executable"),
            (NOT_FOUND.into(), "not found"),
        ];
        let constants = constants.map(|(code, meaning)| format!("{code}: {meaning}"));
        let computed = [format!("{SIGNAL_BASE} + N: signal N"), "other: exit code of the command".to_owned()];
        constants.into_iter().chain(computed).collect()
    }

    /// Reads the published lines. A missing file is an error, because an empty list would permit every change.
    fn read(file: &Path) -> BTreeSet<String> {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}; restore the published list", file.display()));
        text.lines().map(str::to_owned).collect()
    }

    /// The published lines that no longer apply.
    fn gone<'a>(published: &'a BTreeSet<String>, now: &'a BTreeSet<String>) -> Vec<&'a String> {
        published.difference(now).collect()
    }

    #[test]
    fn no_published_exit_code_is_changed_or_removed() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exit_codes.txt");
        let (published, now) = (read(&file), codes());
        let gone = gone(&published, &now);
        assert!(gone.is_empty(), "scripts compare these; add new ones beside them:\n{gone:#?}");
        if std::env::var_os("PUBLISH").is_some() {
            let text: String = now.iter().map(|code| format!("{code}\n")).collect();
            std::fs::write(&file, text).unwrap();
            return;
        }
        let new: Vec<_> = now.difference(&published).collect();
        assert!(new.is_empty(), "not in exit_codes.txt yet (PUBLISH=1 adds them):\n{new:#?}");
    }

    #[test]
    fn a_changed_number_or_meaning_is_found() {
        let now = codes();
        for (line, other) in [("2: wrong usage", "64: wrong usage"), ("1: failure", "1: wrong usage")] {
            let mut changed = now.clone();
            assert!(changed.remove(line) && changed.insert(other.to_owned()));
            assert_eq!(gone(&now, &changed), [line]);
        }
    }

    #[test]
    #[should_panic(expected = "no-such-list.txt")]
    fn a_missing_list_is_an_error() {
        read(Path::new("no-such-list.txt"));
    }

    #[test]
    fn exit_codes_match_the_documentation() {
        let codes = codes();
        let numbers = codes.iter().filter_map(|code| Some(code.split_once(": ")?.0.to_owned()));
        let numbers: BTreeSet<_> = numbers.collect();
        assert_eq!(numbers.len(), codes.len(), "two meanings have the same exit code");
        assert_eq!(numbers, documented(), "the exit codes of the program, and those of docs/operations.md");
        assert_eq!((of_signal(15), of_command(7), of_command(-1), of_command(256)), (143, 7, 255, 255));
    }

    fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    /// An exit code that is a number in the code would bypass the table.
    #[test]
    fn all_exit_codes_are_constants_of_this_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = root.join("../../src");
        let mut files = vec![program.join("main.rs"), program.join("program.rs")];
        sources(&root.join("src"), &mut files);
        files.retain(|file| !file.ends_with("src/exit_code.rs"));
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for after in text.split("ExitCode::from(").skip(1) {
                assert!(!after.starts_with(|char: char| char.is_ascii_digit()), "{}", file.display());
            }
            for number in ["u8 = 1", "i32 = 128", "process::exit("] {
                assert!(!text.contains(number), "{}: {number}", file.display());
            }
        }
    }
}
