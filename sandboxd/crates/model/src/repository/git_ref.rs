//! Names of branches, tags and commits in requests.

use std::fmt;

use crate::{FieldError, limits};

/// Characters that a name of git cannot have (git-check-ref-format(1)), except control characters and spaces.
const FORBIDDEN: [char; 7] = ['~', '^', ':', '?', '*', '[', '\\'];

/// A branch, a tag, a full ref such as `refs/heads/main`, or the hash of a commit, which may be shortened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitRef(String);

impl GitRef {
    /// Checks a name. `field` is the caller's name for it.
    pub fn parse(field: &str, text: &str) -> Result<Self, FieldError> {
        let max = limits::MAX_GIT_REF_BYTES;
        if text.is_empty() || text.len() > max {
            return Err(FieldError::new(field, format!("must be 1 to {max} bytes long")));
        }
        let is_forbidden =
            |char: char| char.is_control() || char.is_whitespace() || FORBIDDEN.contains(&char);
        let is_name = !text.contains(is_forbidden)
            && !text.contains("..")
            && !text.contains("//")
            && !text.contains("@{")
            && !text.starts_with(['-', '/', '.'])
            && !text.ends_with(['/', '.'])
            && !text.ends_with(".lock");
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(FieldError::new(field, "must be a branch, a tag or the hash of a commit")),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_git_accepts() {
        for good in ["main", "v1.2.3", "feature/x", "refs/tags/v1", "@scope/pkg@1.0.0", "0a1b2c3", "ü"] {
            assert_eq!(GitRef::parse("ref", good).unwrap().as_str(), good);
        }
        let long = "a".repeat(limits::MAX_GIT_REF_BYTES + 1);
        for bad in [
            "",
            "--upload-pack=touch x",
            "-b",
            "a b",
            "a\nb",
            "a..b",
            "a:b",
            "a^",
            "HEAD~1",
            "a@{1}",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a.",
            "a.lock",
            "a\\b",
            "a\0",
            &long,
        ] {
            assert!(GitRef::parse("ref", bad).is_err(), "{bad:?}");
        }
    }
}
