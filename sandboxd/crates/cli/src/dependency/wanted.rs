//! What is looked for in a lock file.

use sandboxd_model::repository::PackageName;

use super::specifier::Specifier;

/// A package, and the workspaces that want it.
pub(super) struct Wanted<'a> {
    /// The package.
    pub(super) name: &'a PackageName,
    /// What `package.json` says about it.
    pub(super) specifier: Option<&'a Specifier>,
    /// Directories from the current one up to that of the lock file, relative to the latter: `packages/a`, `packages`, and
    /// the empty text. Workspaces have such names.
    pub(super) members: Vec<&'a str>,
}
