//! Suggestions for unknown keys.

use super::fault::shown;

/// Minimum similarity of a suggestion. 1 means identical.
const ALIKE: f64 = 0.6;
/// Minimum similarity for the name of a section, because other programs' sections are next to it.
const VERY_ALIKE: f64 = 0.8;

/// Returns the path whose last name is most similar to the key. Among equals, prefers the key's own table.
pub(super) fn nearest(paths: &[String], table: &str, key: &str) -> Option<String> {
    let score = |path: &String| {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        (likeness(name, key), parent == table)
    };
    let scored = paths.iter().map(|path| (score(path), path));
    let best = scored.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    best.filter(|((likeness, _), _)| *likeness >= ALIKE).map(|(_, path)| path.clone())
}

/// Whether one name is probably a misspelling of the other.
pub(super) fn is_very_alike(known: &str, found: &str) -> bool {
    likeness(known, found) >= VERY_ALIKE
}

/// Compares only the beginning of a long key, because the cost is the product of both lengths.
fn likeness(known: &str, found: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(known, &shown(found).to_lowercase())
}
