//! Tables of the document, and full paths of their keys.

use toml::de::DeTable;

use super::fault::shown;

/// A table, or the position where it would be.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    /// Full path. Empty for the whole document.
    pub(super) path: String,
    /// Line of its first mention. `None` if it is absent.
    pub(super) line: Option<usize>,
    pub(super) table: Option<&'a DeTable<'a>>,
}

impl Section<'_> {
    /// Full path of a key. A key that needs quotes in TOML has them here too, so that it cannot forge a line of the
    /// log.
    pub(super) fn path_of(&self, key: &str) -> String {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_[]".contains(&byte);
        let key = if key.bytes().all(is_bare) { shown(key) } else { format!("{:?}", shown(key)) };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}
