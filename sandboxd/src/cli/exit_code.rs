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
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
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

    #[test]
    fn exit_codes_match_the_documentation() {
        let codes = [0, FAILURE.into(), usage(), NOT_EXECUTABLE.into(), NOT_FOUND.into()];
        let mut codes: BTreeSet<_> = codes.map(|code: i32| code.to_string()).into();
        codes.insert(format!("{SIGNAL_BASE} + N"));
        codes.insert("other".to_owned());
        assert_eq!(codes, documented(), "the exit codes of the program, and those of docs/operations.md");
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = vec![root.join("main.rs")];
        sources(&root.join("cli"), &mut files);
        files.retain(|file| !file.ends_with("cli/exit_code.rs"));
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
