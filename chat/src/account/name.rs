//! Names of users.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::limits::MAX_NAME_CHARS;

/// Name of a user: 1 to [`MAX_NAME_CHARS`] letters, digits and `. _ @ + -`. Names that differ only in the case of
/// ASCII letters are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserName(String);

/// The text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {MAX_NAME_CHARS} letters, digits, and . _ @ + -")]
pub struct BadName;

impl UserName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in the form in which equal names are equal texts.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for UserName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_good = |char: char| char.is_ascii_alphanumeric() || "._@+-".contains(char);
        let is_long = text.len() > MAX_NAME_CHARS;
        if text.is_empty() || is_long || !text.chars().all(is_good) {
            return Err(BadName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain_and_short() {
        for good in ["a", "Ann.Lee+test@example.com", &"x".repeat(MAX_NAME_CHARS)] {
            assert_eq!(good.parse::<UserName>().unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\n", "<b>", "é", "a\u{202e}b", &"x".repeat(MAX_NAME_CHARS + 1)] {
            assert_eq!(bad.parse::<UserName>(), Err(BadName), "{bad}");
        }
        assert_eq!("Ann".parse::<UserName>().unwrap().folded(), "ann");
    }
}
