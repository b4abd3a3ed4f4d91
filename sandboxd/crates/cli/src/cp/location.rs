//! Parses the source and the target of a copy.

/// Source or target of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location<'a> {
    /// Path on this machine. `-` is standard input or output.
    Local(String),
    /// Path in a sandbox.
    Remote {
        /// An id or a session key.
        name: &'a str,
        /// Path relative to the workspace.
        path: &'a str,
    },
}

impl<'a> Location<'a> {
    /// `NAME:PATH` is in a sandbox. With `session`, only `:PATH` is. The last colon separates name and path, because
    /// session keys contain colons. Text with a slash before the last colon is a local path.
    pub(super) fn parse(text: &'a str, session: Option<&'a str>) -> Self {
        let local = || Self::Local(text.to_owned());
        match (session, text.rsplit_once(':')) {
            (Some(name), _) => text.strip_prefix(':').map_or_else(local, |path| Self::Remote { name, path }),
            (None, Some((name, path))) if !name.is_empty() && !name.contains('/') => {
                Self::Remote { name, path }
            }
            (None, _) => local(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_separates_name_and_path() {
        let remote = |name, path| Location::Remote { name, path };
        assert_eq!(Location::parse("chat:1:src/a", None), remote("chat:1", "src/a"));
        assert_eq!(Location::parse("chat:1:", None), remote("chat:1", ""));
        for local in ["src/a", "./a:b", "/a:b", "-", ":a"] {
            assert_eq!(Location::parse(local, None), Location::Local(local.into()));
        }
        assert_eq!(Location::parse(":a:b", Some("chat:1")), remote("chat:1", "a:b"));
        assert_eq!(Location::parse("a:b", Some("chat:1")), Location::Local("a:b".into()));
    }
}
