//! Configuration errors and their positions.

use std::fmt;
use std::path::PathBuf;

use super::settings::SECTION;
use crate::provider::BadCredentials;

/// Maximum number of characters of a value in a message.
const SHOWN_CHARS: usize = 80;

/// One error. It reads as a sentence, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at} {problem}")]
pub struct Fault {
    /// Position of the error.
    pub at: Location,
    /// What is wrong.
    pub problem: Problem,
}

/// Position of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In the text itself.
    Text {
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
    },
    /// At a key of the file.
    Key {
        /// Full path of the key, such as `app.bash_tools.sandbox.ports[2]`.
        path: String,
        /// Line, counted from 1. For a missing key, the line of its table, if there is one.
        line: Option<usize>,
    },
    /// In the environment.
    Variable {
        /// Name of the variable.
        name: String,
    },
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is not TOML.
    #[error("is not TOML: {message}")]
    Syntax {
        /// Message of the parser.
        message: String,
    },
    /// The value has the wrong type.
    #[error("must be {wanted}, not {found}")]
    WrongType {
        /// Expected type, with its article.
        wanted: &'static str,
        /// Actual type, with its article.
        found: &'static str,
    },
    /// The number is out of range.
    #[error("must be from {min} to {max}{space}{unit}, not {found}", space = if unit.is_empty() { "" } else { " " })]
    OutOfRange {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// Unit, in the plural. May be empty.
        unit: &'static str,
        /// Value as written.
        found: String,
    },
    /// The value is not one of the allowed words.
    #[error("must be {}, not {found:?}", in_quotes(allowed))]
    NotOneOf {
        /// Allowed words.
        allowed: &'static [&'static str],
        /// Value as written.
        found: String,
    },
    /// There are too many entries.
    #[error("must have at most {limit} entries, not {found}")]
    TooMany {
        /// Maximum number of entries.
        limit: usize,
        /// Actual number of entries.
        found: usize,
    },
    /// The text is too long.
    #[error("must be at most {limit} bytes long, not {found}")]
    TooLong {
        /// Maximum length.
        limit: usize,
        /// Actual length.
        found: usize,
    },
    /// The text is empty.
    #[error("must not be empty")]
    Empty,
    /// The text does not have the required form.
    #[error("must be {wanted}, not {found:?}")]
    Malformed {
        /// Required form, with its article.
        wanted: &'static str,
        /// Value as written.
        found: String,
    },
    /// Same, for a value that may be a secret and is not repeated.
    #[error("must be {wanted}")]
    Undisclosed {
        /// Required form, with its article.
        wanted: &'static str,
    },
    /// The key is unknown.
    #[error("is not known{}", nearest.as_ref().map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default())]
    Unknown {
        /// Key that may have been meant.
        nearest: Option<String>,
    },
    /// A required key is missing.
    #[error("is required {because}")]
    Missing {
        /// Condition that makes it required.
        because: &'static str,
    },
    /// The credentials are not valid for Vercel.
    #[error("is not enough for Vercel: {0}")]
    NotForVercel(BadCredentials),
    /// Another value makes this one useless or dangerous.
    #[error("cannot be combined with {other}: {because}")]
    Conflict {
        /// Key of the other value.
        other: &'static str,
        /// Reason.
        because: &'static str,
    },
    /// The tools are switched off in the environment.
    #[error("must be 1, true, yes or on to enable the tools")]
    SwitchedOff,
    /// The token is too short.
    #[error("must have at least {min_chars} characters {because}, not {found_chars}")]
    WeakToken {
        /// Minimum number of characters.
        min_chars: usize,
        /// Actual number of characters.
        found_chars: usize,
        /// Condition that makes it required.
        because: &'static str,
    },
    /// Nothing usable is at the path.
    #[error("must be a directory that can be read: {} is not ({kind})", path.display())]
    NoDirectory {
        /// Path as written.
        path: PathBuf,
        /// Error of the system.
        kind: std::io::ErrorKind,
    },
}

impl Fault {
    pub(super) fn of_variable(name: &str, problem: Problem) -> Self {
        Self { at: Location::Variable { name: name.to_owned() }, problem }
    }

    /// Whether the error makes the switch, or the whole text, unreadable.
    pub(super) fn is_of_the_switch(&self) -> bool {
        let switch = format!("{SECTION}.enabled");
        match (&self.at, &self.problem) {
            (Location::Text { .. }, _) => true,
            (Location::Key { .. }, Problem::Unknown { nearest }) => nearest.as_ref() == Some(&switch),
            // A value in place of the table hides the switch.
            (Location::Key { path, .. }, _) => *path == switch || *path == SECTION || path == "app",
            (Location::Variable { .. }, _) => false,
        }
    }

    pub(super) fn is_of_something_missing(&self) -> bool {
        matches!(self.problem, Problem::Missing { .. })
    }

    /// Sort key. Errors without a line come last.
    pub(super) fn line(&self) -> usize {
        match self.at {
            Location::Text { line, .. } | Location::Key { line: Some(line), .. } => line,
            Location::Key { line: None, .. } | Location::Variable { .. } => usize::MAX,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "line {line}, column {column}:"),
            Self::Key { path, line: Some(line) } => write!(f, "line {line}: {path}"),
            Self::Key { path, line: None } => f.write_str(path),
            Self::Variable { name } => write!(f, "the environment's {name}"),
        }
    }
}

/// Truncates a text for a message.
pub(super) fn shown(found: &str) -> String {
    match found.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &found[..end]),
        None => found.to_owned(),
    }
}

fn in_quotes(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ")
}
