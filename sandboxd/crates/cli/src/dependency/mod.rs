//! Which version of a package the project in the current directory uses.
//!
//! The search goes from the current directory upwards, to the root of the git repository if there is one. It looks first for
//! the installed package in all these directories, then for the lock files of the nearest one that has any, then for the
//! range in `package.json`. All these files are untrusted: they have bounded sizes and depths, and what they say becomes a
//! [`PackageName`] and a [`PackageVersion`], or is only printed.

mod bun;
mod bun_binary;
mod file;
mod finding;
mod installed;
mod lock;
mod manifest;
mod npm;
mod pnpm;
mod range;
mod specifier;
mod wanted;
mod yaml;
mod yarn;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sandboxd_model::repository::{PackageName, PackageVersion};

use self::finding::Finding;
use self::manifest::Declared;
use self::range::Choice;
use self::specifier::Specifier;
use super::text;

/// Maximum number of directories that are searched.
const MAX_DIRECTORIES: usize = 64;

/// How much of a text from a file is printed, in characters.
const MAX_SHOWN_CHARS: usize = 100;

/// What was found. It prints as one line.
#[derive(Debug)]
pub(super) enum Dependency {
    /// The project uses this version.
    Used {
        /// The name that was asked for. An alias differs from the package's own name.
        name: PackageName,
        package: PackageName,
        version: PackageVersion,
        source: Source,
    },
    /// The project does not use the package, or accepts every version.
    Latest { name: PackageName, package: PackageName },
}

/// Where a version was found.
#[derive(Debug)]
pub(super) enum Source {
    /// An installed package, or a lock file.
    File(PathBuf),
    /// The lowest version of a range, because nothing is installed and there is no lock file.
    Range { range: String, file: PathBuf },
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used { name, package, version, source } => {
                if name != package {
                    write!(f, "{name} is ")?;
                }
                write!(f, "{package} {}, ", version.as_str())?;
                match source {
                    Source::File(file) => write!(f, "from {}", file.display()),
                    Source::Range { range, file } => {
                        let range = text::cut(range, MAX_SHOWN_CHARS);
                        write!(f, "the lowest version of {range} in {}", file.display())
                    }
                }
            }
            Self::Latest { name, .. } => {
                write!(f, "no version of {name} found in this project; using the latest")
            }
        }
    }
}

/// Finds the package as the project in the current directory uses it.
pub(super) fn find(name: &PackageName) -> anyhow::Result<Dependency> {
    let dir = std::env::current_dir().context("the current directory is not accessible")?;
    find_from(&dir, name)
}

fn find_from(dir: &Path, name: &PackageName) -> anyhow::Result<Dependency> {
    let dirs = project_dirs(dir);
    let declared = manifest::find(&dirs, name);
    // What is installed has a version too, but the registry may not know it.
    if let Some(Declared { specifier: Specifier::Elsewhere(text), file }) = &declared {
        return Err(not_from_registry(name, text, file));
    }
    let found = installed::find(&dirs, name).or_else(|| lock::find(&dirs, name, declared.as_ref()));
    match (found, declared) {
        (Some((Finding::Registry { package, version }, file)), _) => {
            Ok(Dependency::Used { name: name.clone(), package, version, source: Source::File(file) })
        }
        (Some((Finding::Elsewhere(text), file)), _) => Err(not_from_registry(name, &text, &file)),
        (None, Some(declared)) => from_range(name, declared),
        (None, None) => Ok(Dependency::Latest { name: name.clone(), package: name.clone() }),
    }
}

fn from_range(name: &PackageName, declared: Declared) -> anyhow::Result<Dependency> {
    let Declared { specifier, file } = declared;
    let (package, range) = match specifier {
        Specifier::Registry { package, range } => (package, range),
        Specifier::Elsewhere(text) | Specifier::Deferred(text) => {
            return Err(not_from_registry(name, &text, &file));
        }
    };
    let used =
        |version, source| Dependency::Used { name: name.clone(), package: package.clone(), version, source };
    match range::choose(&range) {
        Choice::Exact(version) => Ok(used(version, Source::File(file))),
        Choice::Lowest(version) => Ok(used(version, Source::Range { range, file })),
        Choice::Any => Ok(Dependency::Latest { name: name.clone(), package }),
        Choice::Unknown => anyhow::bail!(
            "{name} is {} in {}, which names no single version: install it, or choose one with -v",
            text::cut(&range, MAX_SHOWN_CHARS),
            file.display()
        ),
    }
}

fn not_from_registry(name: &PackageName, text: &str, file: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{name} is {} in {}, which is no version of the registry: name its repository, or choose a version with -v",
        text::cut(text, MAX_SHOWN_CHARS),
        file.display()
    )
}

/// The directory and those above it, up to the root of its git repository.
fn project_dirs(dir: &Path) -> Vec<&Path> {
    let mut dirs = Vec::new();
    for dir in dir.ancestors().take(MAX_DIRECTORIES) {
        dirs.push(dir);
        if dir.join(".git").exists() {
            break;
        }
    }
    dirs
}

#[cfg(test)]
mod tests;
