//! Names of commits.

use std::fmt;
use std::str::FromStr;

/// Length of a hash in hexadecimal digits.
const DIGITS: usize = 40;

/// SHA-1 of a commit, as 40 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitHash(String);

/// The text is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 40 hexadecimal digits")]
pub struct NotAHash;

impl CommitHash {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CommitHash {
    type Err = NotAHash;

    /// Accepts upper-case digits too.
    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let is_hash = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash { Ok(Self(text.to_ascii_lowercase())) } else { Err(NotAHash) }
    }
}

impl fmt::Display for CommitHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
