//! What a name on the command line means.

/// Where something is copied from or to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// On this machine; `-` is standard input or output.
    Here(String),
    /// In a sandbox.
    There {
        /// An id or a session key.
        name: &'a str,
        /// From its workspace.
        path: &'a str,
    },
}

impl<'a> Place<'a> {
    /// `NAME:PATH` is in a sandbox, and with a `session` `:PATH` alone. The last colon counts, because session keys have
    /// colons; what has a slash before it is a path of this machine.
    pub(super) fn parse(text: &'a str, session: Option<&'a str>) -> Self {
        let here = || Self::Here(text.to_owned());
        match (session, text.rsplit_once(':')) {
            (Some(name), _) => text.strip_prefix(':').map_or_else(here, |path| Self::There { name, path }),
            (None, Some((name, path))) if !name.is_empty() && !name.contains('/') => {
                Self::There { name, path }
            }
            (None, _) => here(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_parts_name_and_path() {
        let there = |name, path| Place::There { name, path };
        assert_eq!(Place::parse("chat:1:src/a", None), there("chat:1", "src/a"));
        assert_eq!(Place::parse("chat:1:", None), there("chat:1", ""));
        for here in ["src/a", "./a:b", "/a:b", "-", ":a"] {
            assert_eq!(Place::parse(here, None), Place::Here(here.into()));
        }
        assert_eq!(Place::parse(":a:b", Some("chat:1")), there("chat:1", "a:b"));
        assert_eq!(Place::parse("a:b", Some("chat:1")), Place::Here("a:b".into()));
    }
}
