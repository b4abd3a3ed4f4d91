//! The operator's glob for files to upload.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::super::{Error, Result};

pub(super) struct Include(GlobMatcher);

impl Include {
    pub(super) fn new(include: &str) -> Result<Self> {
        let pattern = include.strip_prefix("./").unwrap_or(include);
        let glob = GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).build();
        let glob = glob.map_err(|source| Error::BadInclude { include: include.to_owned(), source })?;
        Ok(Self(glob.compile_matcher()))
    }

    /// Whether the glob matches a file's path relative to the root.
    pub(super) fn takes(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(include: &str) -> Vec<&'static str> {
        let paths =
            ["a.ts", "README", "package.json", "src/b.TS", "src/deep/c.ts", "src/deep/d.css", "lib/src/e.ts"];
        let include = Include::new(include).unwrap();
        paths.into_iter().filter(|path| include.takes(Path::new(path))).collect()
    }

    #[test]
    fn patterns_match_as_documented() {
        assert_eq!(taken("**/*").len(), 7);
        assert_eq!(taken("**").len(), 7);
        assert_eq!(taken("*"), ["a.ts", "README", "package.json"]);
        assert_eq!(taken("**/*.ts"), ["a.ts", "src/b.TS", "src/deep/c.ts", "lib/src/e.ts"]);
        assert_eq!(taken("**/*.{json,css}"), ["package.json", "src/deep/d.css"]);
        assert_eq!(taken("src/**"), ["src/b.TS", "src/deep/c.ts", "src/deep/d.css"]);
        assert_eq!(taken("./src/*"), ["src/b.TS"]);
        assert_eq!(taken("{src/deep/**,*.json}"), ["package.json", "src/deep/c.ts", "src/deep/d.css"]);
        assert_eq!(taken("[ar]*"), ["a.ts", "README"]);
        assert_eq!(taken("nowhere/**"), [""; 0]);
        assert!(matches!(Include::new("**/*.{ts"), Err(Error::BadInclude { .. })));
        assert!(matches!(Include::new("[a"), Err(Error::BadInclude { .. })));
    }
}
