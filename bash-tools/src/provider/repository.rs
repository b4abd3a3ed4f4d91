//! Repositories whose files a new sandbox begins with.

/// A repository of a git server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// `https` URL without credentials.
    pub url: String,
    /// Branch, tag, full hash of a commit, or full name of a ref. `None` is the default branch.
    pub revision: Option<String>,
}
