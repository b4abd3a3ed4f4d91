//! Versions, and ranges of versions as npm writes them.

use sandboxd_model::repository::PackageVersion;
use semver::Version;

/// Maximum number of alternatives of a range that are considered.
const MAX_ALTERNATIVES: usize = 32;

/// The version that a range stands for if nothing is installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The range has one version, or is a dist-tag.
    Exact(PackageVersion),
    /// The lowest version of the range, or of the alternative with the highest one.
    Lowest(PackageVersion),
    /// The range has no upper bound, so the latest version belongs to it.
    Any,
    /// The range has bounds, but does not name a version that exists.
    Unknown,
}

/// A full version, such as `1.2.3` or `=v1.2.3-rc.1`. `None` if it is something else.
pub(super) fn exact(text: &str) -> Option<PackageVersion> {
    let text = text.trim();
    let text = text.strip_prefix('=').unwrap_or(text).trim_start();
    let text = text.strip_prefix('v').unwrap_or(text);
    Version::parse(text).ok()?;
    PackageVersion::parse("version", text).ok()
}

/// Chooses a version of a range. It does not look up which versions exist.
pub(super) fn choose(range: &str) -> Choice {
    let range = range.trim();
    if let Some(version) = exact(range) {
        return Choice::Exact(version);
    }
    if matches!(range, "" | "*" | "x" | "X" | "latest") {
        return Choice::Any;
    }
    if let Some(tag) = dist_tag(range) {
        return Choice::Exact(tag);
    }
    let alternatives = range.split("||").take(MAX_ALTERNATIVES);
    let lowest = alternatives.clone().filter_map(lowest);
    if let Some(version) = lowest.max_by_key(|version| Version::parse(version.as_str()).ok()) {
        return Choice::Lowest(version);
    }
    match alternatives.into_iter().any(is_unbounded) {
        true => Choice::Any,
        false => Choice::Unknown,
    }
}

/// A name such as `next`. What could be a range, such as `v1` or `x`, is none.
fn dist_tag(range: &str) -> Option<PackageVersion> {
    let is_version =
        range.trim_start_matches(['v', 'x', 'X']).starts_with(|first: char| !first.is_ascii_alphabetic());
    let is_tag = range.starts_with(|first: char| first.is_ascii_alphabetic()) && !is_version;
    is_tag.then(|| PackageVersion::parse("version", range).ok())?
}

/// The version of the first comparator, if it belongs to the alternative: `^1.2.3`, `~1.2.3`, `>=1.2.3 <2`, `1.2.3 - 2`.
fn lowest(alternative: &str) -> Option<PackageVersion> {
    let rest = alternative.trim();
    let rest = rest.strip_prefix(">=").or_else(|| rest.strip_prefix(['^', '~'])).unwrap_or(rest);
    exact(rest.split_whitespace().next()?)
}

fn is_unbounded(alternative: &str) -> bool {
    let alternative = alternative.trim();
    let mut words = alternative.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        // `>= 16` is one comparator.
        (Some(first), None, None) => first.starts_with('>') || matches!(first, "*" | "x" | "X"),
        (Some(">" | ">="), Some(_), None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> PackageVersion {
        PackageVersion::parse("version", text).unwrap()
    }

    #[test]
    fn a_range_stands_for_a_version_that_belongs_to_it() {
        for (range, wanted) in [
            ("1.2.3", Choice::Exact(version("1.2.3"))),
            ("=v1.2.3-rc.1", Choice::Exact(version("1.2.3-rc.1"))),
            ("next", Choice::Exact(version("next"))),
            ("^1.2.3", Choice::Lowest(version("1.2.3"))),
            ("~1.2.3", Choice::Lowest(version("1.2.3"))),
            (">=1.2.3 <2", Choice::Lowest(version("1.2.3"))),
            ("1.2.3 - 2.0.0", Choice::Lowest(version("1.2.3"))),
            ("^9.0.0 || ^10.0.0", Choice::Lowest(version("10.0.0"))),
            ("*", Choice::Any),
            ("", Choice::Any),
            ("latest", Choice::Any),
            (">=16", Choice::Any),
            (">= 16", Choice::Any),
            (">1.2.3", Choice::Any),
            ("1", Choice::Unknown),
            ("v1", Choice::Unknown),
            ("1.x", Choice::Unknown),
            ("^1", Choice::Unknown),
            ("<2.0.0", Choice::Unknown),
            ("<=2.0.0", Choice::Unknown),
            (">1.2.3 <2", Choice::Unknown),
            ("../x", Choice::Unknown),
            ("a b", Choice::Unknown),
        ] {
            assert_eq!(choose(range), wanted, "{range:?}");
        }
    }

    #[test]
    fn only_full_versions_are_exact() {
        for text in
            ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3 ", "^1.2.3", "latest", "1.2.3/../..", "1.2.3\n--x"]
        {
            assert_eq!(exact(text).is_some(), text == "1.2.3 ", "{text:?}");
        }
    }
}
