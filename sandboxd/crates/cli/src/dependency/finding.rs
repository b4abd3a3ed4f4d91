//! What one file says about a package.

use sandboxd_model::repository::{PackageName, PackageVersion};
use semver::Version;

/// What one file says about a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is this version of a package of the registry.
    Registry { package: PackageName, version: PackageVersion },
    /// It is something else, such as a directory or a git repository.
    Elsewhere(String),
}

impl Finding {
    /// The order of findings, if a file has several versions of a package. The highest one counts.
    pub(super) fn rank(&self) -> Option<Version> {
        match self {
            Self::Registry { version, .. } => Version::parse(version.as_str()).ok(),
            Self::Elsewhere(_) => None,
        }
    }
}
