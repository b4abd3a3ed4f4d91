//! A table of the document, and what its keys are called from the top.

use toml::de::DeTable;

use super::fault::shown;

/// A table, or the place where it would be.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    /// From the top; empty for the whole document.
    pub(super) path: String,
    /// Of its first mention; `None` where it is not there.
    pub(super) line: Option<usize>,
    pub(super) table: Option<&'a DeTable<'a>>,
}

impl Section<'_> {
    /// What a key of it is called. A key that TOML wants in quotes has them here, so that nothing of it can be taken for
    /// another line of the log.
    pub(super) fn path_of(&self, key: &str) -> String {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_[]".contains(&byte);
        let key = if key.bytes().all(is_bare) { shown(key) } else { format!("{:?}", shown(key)) };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}
