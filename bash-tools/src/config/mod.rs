//! Operator settings, checked: `[app.bash_tools]` of the chat app's `config.toml`, and the environment.
//!
//! All errors are reported at once, each with its key, line, expected form and actual value. Unknown keys are
//! rejected, but only in this section, because the rest of the file belongs to the chat app. Only [`parse`] reads a
//! text, [`load`] the file, and [`Environment`] the environment. [`preflight`] checks all of them together, and the
//! disk.
//!
//! An operator who switches the tools off, perhaps because of errors, must be able to start the app. If `enabled` is
//! false or absent, an error is only a note, and missing keys are not reported. An error in `enabled` itself is
//! always reported, because it may be a misspelling.

mod check;
mod environment;
mod fault;
mod file;
mod forms;
mod preflight;
mod ranges;
mod reader;
mod section;
mod settings;
mod spelling;

pub use environment::{Environment, MIN_TOKEN_CHARS, process_environment};
pub use fault::{Fault, Location, Problem};
pub use file::{Error, load, path};
pub use preflight::preflight;
pub use settings::{Access, BashTools, DockerSettings, GitSeed, Provider, Sandboxes, Seed, UploadSeed};

/// A valid configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Settings, or `None` if the tools are switched off.
    pub tools: Option<BashTools>,
    /// Harmless errors, for the log.
    pub notes: Vec<Fault>,
}

/// Checks the text of a `config.toml`. If it is not TOML, only that is reported, because the meaning of its lines is
/// unclear.
///
/// # Errors
/// All errors, in the order of their lines.
pub fn parse(text: &str) -> Result<Config, Vec<Fault>> {
    let checked = check::check(text);
    let (in_the_way, notes) = match checked.is_enabled {
        true => (checked.faults, Vec::new()),
        false => checked.faults.into_iter().partition(Fault::is_of_the_switch),
    };
    if !in_the_way.is_empty() {
        return Err(in_the_way);
    }
    let notes = notes.into_iter().filter(|note| !note.is_of_something_missing()).collect();
    Ok(Config { tools: checked.is_enabled.then_some(checked.tools).flatten(), notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../config.toml.example");

    fn paths(prefix: &str, table: &toml::de::DeTable<'_>) -> Vec<String> {
        let entries = table.iter().flat_map(|(key, value)| {
            let path = format!("{prefix}{}", key.get_ref());
            let below = value.get_ref().as_table().map(|table| paths(&format!("{path}."), table));
            std::iter::once(path).chain(below.unwrap_or_default())
        });
        entries.collect()
    }

    #[test]
    fn the_example_has_every_key_and_no_other() {
        let document = toml::de::DeTable::parse(EXAMPLE).unwrap();
        let mut there = paths("", document.get_ref());
        there.retain(|path| path != "app");
        let mut known = check::check("").keys;
        there.sort();
        known.sort();
        assert_eq!(there, known);
        assert_eq!(parse(EXAMPLE), Ok(Config { tools: None, notes: Vec::new() }));
    }

    #[test]
    fn the_example_has_the_defaults() {
        let needed = [
            ("enabled = false", "enabled = true", ""),
            (
                "git_url = \"\"",
                "git_url = \"https://git.lan/x\"",
                "[app.bash_tools.seed]\ngit_url = \"https://git.lan/x\"",
            ),
        ];
        let example = needed.iter().fold(EXAMPLE.to_owned(), |text, (old, new, _)| text.replace(old, new));
        let short = format!("[app.bash_tools]\nenabled = true\n{}", needed[1].2);
        assert_eq!(parse(&example), parse(&short));
        assert!(parse(&short).unwrap().tools.is_some());

        let sandboxd =
            |text: String, rest: &str| text.replace("provider = \"vercel\"", "provider = \"docker\"") + rest;
        let example = sandboxd(example, "")
            .replace("orchestrator_url = \"\"", "orchestrator_url = \"http://localhost\"");
        let example = example.replace("\nruntime = \"node22\"", "\nruntime = \"node24\"");
        let short = short.replace("enabled = true", "enabled = true\nprovider = \"docker\"");
        let short = sandboxd(short, "\n[app.bash_tools.docker]\norchestrator_url = \"http://localhost\"");
        assert_eq!(parse(&example), parse(&short));
        assert!(parse(&short).unwrap().tools.unwrap().docker().is_some());
    }

    #[test]
    fn every_number_in_the_example_states_its_range() {
        use super::ranges::*;
        let all = [
            OUTPUT_CHARS,
            COMMAND_TIMEOUT_MS,
            CONCURRENT_SANDBOXES,
            IDLE_TTL_MS,
            MEMORY_MB,
            VCPUS,
            SANDBOX_TIMEOUT_MS,
            PORT,
            SEED_BYTES,
        ];
        let words = EXAMPLE.replace("\n# ", " ");
        for range in all {
            let range_text = format!("{} to {}", range.min, range.max);
            assert!(words.contains(&range_text), "{range_text}");
        }
    }
}
