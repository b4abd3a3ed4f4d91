//! What is wrong, and where.

use std::fmt;
use std::path::PathBuf;

use crate::provider::BadCredentials;

/// Most that is shown of what was found, in characters.
const SHOWN_CHARS: usize = 80;

/// One thing that is wrong. Reads as a sentence, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at} {problem}")]
pub struct Fault {
    /// Where.
    pub at: Place,
    /// What.
    pub problem: Problem,
}

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the text as such.
    Text {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// At a key of the file.
    Key {
        /// From the top, such as `app.bash_tools.sandbox.ports[2]`.
        path: String,
        /// From 1. Of something that is missing the line of its table, where there is one.
        line: Option<usize>,
    },
    /// In the environment.
    Variable {
        /// Its name.
        name: String,
    },
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is no TOML.
    #[error("is not TOML: {said}")]
    Syntax {
        /// The parser's words.
        said: String,
    },
    /// A value of another type.
    #[error("must be {wanted}, not {found}")]
    WrongType {
        /// With its article.
        wanted: &'static str,
        /// With its article.
        found: &'static str,
    },
    /// A number that is too small or too large.
    #[error("must be from {min} to {max}{space}{unit}, not {found}", space = if unit.is_empty() { "" } else { " " })]
    OutOfRange {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// In the plural; may be empty.
        unit: &'static str,
        /// As it was written.
        found: String,
    },
    /// A word that is none of those that there are.
    #[error("must be {}, not {found:?}", in_quotes(allowed))]
    NotOneOf {
        /// Those that there are.
        allowed: &'static [&'static str],
        /// As it was written.
        found: String,
    },
    /// Too many entries.
    #[error("must have at most {limit} entries, not {found}")]
    TooMany {
        /// Most.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// Too long a text.
    #[error("must be at most {limit} bytes long, not {found}")]
    TooLong {
        /// Most.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// A text with nothing in it.
    #[error("must not be empty")]
    Empty,
    /// A text that is not of the form it must have.
    #[error("must be {wanted}, not {found:?}")]
    Malformed {
        /// With its article.
        wanted: &'static str,
        /// As it was written.
        found: String,
    },
    /// The same, where what was found may be a secret.
    #[error("must be {wanted}")]
    Undisclosed {
        /// With its article.
        wanted: &'static str,
    },
    /// Something that there is not.
    #[error("is not known{}", nearest.as_ref().map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default())]
    Unknown {
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// Something that must be there.
    #[error("is required {because}")]
    Missing {
        /// Under which circumstances.
        because: &'static str,
    },
    /// Credentials that Vercel would not take.
    #[error("is not enough for Vercel: {0}")]
    NotForVercel(BadCredentials),
    /// A value that another one makes useless or dangerous.
    #[error("does not go with {other}: {because}")]
    Conflict {
        /// The other's key.
        other: &'static str,
        /// Why.
        because: &'static str,
    },
    /// The switch in the environment is off.
    #[error("must be 1, true, yes or on, or there are no tools")]
    SwitchedOff,
    /// Too short a token.
    #[error("must have at least {min_chars} characters {because}, not {found_chars}")]
    WeakToken {
        /// Fewest.
        min_chars: usize,
        /// How many there are.
        found_chars: usize,
        /// Under which circumstances.
        because: &'static str,
    },
    /// A path where something else is, or nothing.
    #[error("must be a directory that can be read: {} is not ({kind})", path.display())]
    NoDirectory {
        /// As it was written.
        path: PathBuf,
        /// What the system says.
        kind: std::io::ErrorKind,
    },
}

impl Fault {
    pub(super) fn of_variable(name: &str, problem: Problem) -> Self {
        Self { at: Place::Variable { name: name.to_owned() }, problem }
    }

    /// Whether it keeps the switch itself, or the whole text, from being understood.
    pub(super) fn is_of_the_switch(&self) -> bool {
        let switch = format!("{}.enabled", super::SECTION);
        match (&self.at, &self.problem) {
            (Place::Text { .. }, _) => true,
            (Place::Key { .. }, Problem::Unknown { nearest }) => nearest.as_ref() == Some(&switch),
            // A table that is none hides the switch.
            (Place::Key { path, .. }, _) => *path == switch || *path == super::SECTION || path == "app",
            (Place::Variable { .. }, _) => false,
        }
    }

    pub(super) fn is_of_something_missing(&self) -> bool {
        matches!(self.problem, Problem::Missing { .. })
    }

    /// For sorting; what has no line comes last.
    pub(super) fn line(&self) -> usize {
        match self.at {
            Place::Text { line, .. } | Place::Key { line: Some(line), .. } => line,
            Place::Key { line: None, .. } | Place::Variable { .. } => usize::MAX,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line, column } => write!(f, "line {line}, column {column}:"),
            Self::Key { path, line: Some(line) } => write!(f, "line {line}: {path}"),
            Self::Key { path, line: None } => f.write_str(path),
            Self::Variable { name } => write!(f, "the environment's {name}"),
        }
    }
}

/// As much as fits into a message.
pub(super) fn shown(found: &str) -> String {
    match found.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &found[..end]),
        None => found.to_owned(),
    }
}

fn in_quotes(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ")
}
