//! What a request wants of a repository.

use crate::model::repository::{GitRef, PackageVersion, RepositorySource};

/// A request for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRequest {
    pub(super) source: RepositorySource,
    pub(super) wanted: Wanted,
}

/// What is wanted of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// The default branch, or the latest version.
    Default,
    Ref(GitRef),
    Version(PackageVersion),
}
