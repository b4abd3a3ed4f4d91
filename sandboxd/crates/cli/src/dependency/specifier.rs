//! What `package.json` and lock files write for a dependency.

use sandboxd_model::repository::PackageName;

use super::finding::Finding;
use super::range;

/// What is wanted of a dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Specifier {
    /// A range of versions, or a dist-tag, of a package of the registry.
    Registry { package: PackageName, range: String },
    /// A directory, a file, an address or a git repository.
    Elsewhere(String),
    /// The version is in another file: `catalog:`, `patch:`.
    Deferred(String),
}

impl Specifier {
    /// Reads the value of a dependency in `package.json`.
    pub(super) fn parse(name: &PackageName, text: &str) -> Self {
        if let Some(rest) = text.strip_prefix("npm:") {
            return match alias(rest) {
                Some((package, range)) => Self::Registry { package, range: range.to_owned() },
                // Yarn writes `npm:^1.2.3` for the package itself.
                None => Self::Registry { package: name.clone(), range: rest.to_owned() },
            };
        }
        if text.starts_with("catalog:") || text.starts_with("patch:") {
            return Self::Deferred(text.to_owned());
        }
        match text.contains([':', '/']) {
            true => Self::Elsewhere(text.to_owned()),
            false => Self::Registry { package: name.clone(), range: text.to_owned() },
        }
    }
}

/// Reads what a lock file has chosen: `1.2.3`, or `name@1.2.3` with `npm:` or not. Everything else is not of the registry.
pub(super) fn locked(name: &PackageName, text: &str) -> Finding {
    let version = text.strip_prefix("npm:").unwrap_or(text);
    if let Some(version) = range::exact(version) {
        return Finding::Registry { package: name.clone(), version };
    }
    let found = alias(version).and_then(|(package, version)| Some((package, range::exact(version)?)));
    match found {
        Some((package, version)) => Finding::Registry { package, version },
        None => Finding::Elsewhere(text.to_owned()),
    }
}

/// Splits `name@range`. The `@` of a scope does not count.
pub(super) fn alias(text: &str) -> Option<(PackageName, &str)> {
    let at = text.get(1..)?.find('@')? + 1;
    Some((PackageName::parse(&text[..at])?, &text[at + 1..]))
}
