//! Users of the app, as sandboxd knows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Maximum length of a subject, which sandboxd sets.
const MAX_CHARS: usize = 256;

/// A user of the app: 1 to 256 visible ASCII characters, which the app chooses and never uses again for another user. A
/// chat of a subject has its sandbox under this subject at sandboxd, which no token of another subject reaches. Cheap to
/// clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

/// The text is not a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subject must have 1 to {MAX_CHARS} visible ASCII characters")]
pub struct BadSubject;

impl Subject {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Subject {
    type Err = BadSubject;

    fn from_str(text: &str) -> Result<Self, BadSubject> {
        let is_good =
            (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_good { Ok(Self(text.into())) } else { Err(BadSubject) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_visible_and_short() {
        for good in ["a", "ann@example.com", &"x".repeat(MAX_CHARS)] {
            assert_eq!(good.parse::<Subject>().unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\n", "é", &"x".repeat(MAX_CHARS + 1)] {
            assert_eq!(bad.parse::<Subject>(), Err(BadSubject), "{bad}");
        }
    }
}
