//! Registries of packages, and why the version of a package cannot be determined.

/// Why a version cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpinned {
    /// The arguments name no exact version, and the registry cannot be asked.
    #[error(
        "{package} has no exact version, so each start could run other code: write {example}, or allow it explicitly"
    )]
    NoVersion {
        /// The package as the arguments name it.
        package: String,
        /// How the package is named with a version.
        example: String,
    },
    /// The registry did not return a version.
    #[error(
        "the current version of {package} could not be looked up ({why}): write {example}, or allow it explicitly"
    )]
    NotFound {
        /// The package as the arguments name it.
        package: String,
        /// How the package is named with a version.
        example: String,
        /// The cause.
        why: String,
    },
    /// The arguments do not show which packages are used.
    #[error(
        "{what} is not understood, so each start could run other code: call {program} without it, or allow it explicitly"
    )]
    Unclear {
        /// A part of the command.
        what: String,
        /// The program that downloads packages.
        program: String,
    },
}

/// Registry of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    /// The npm registry.
    Npm,
    /// The Python Package Index.
    Python,
}
