//! Where the files of a repository come from.

use std::fmt;

use super::{DirectoryName, HttpsUrl};

/// Where the files of a repository come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RepositoryOrigin {
    /// A git server, at this address.
    Server(HttpsUrl),
    /// A directory that the operator allows.
    Directory(DirectoryName),
}

impl RepositoryOrigin {
    /// Reads what [`fmt::Display`] writes. The error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix(DirectoryName::PREFIX) {
            Some(name) => DirectoryName::parse(name).map(Self::Directory),
            None => HttpsUrl::parse(text).map(Self::Server),
        }
    }
}

impl fmt::Display for RepositoryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(url) => url.fmt(f),
            Self::Directory(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_it_is_written() {
        for text in ["https://git.example/a/b.git", "dir:app"] {
            assert_eq!(RepositoryOrigin::parse(text).unwrap().to_string(), text);
        }
        for bad in ["app", "dir:", "dir:/etc", "file:///etc"] {
            assert!(RepositoryOrigin::parse(bad).is_err(), "{bad}");
        }
    }
}
