//! Suggestions for unknown keys.

use super::fault::shown;

/// Minimum similarity of a suggestion. 1 means identical.
const MIN_SIMILARITY: f64 = 0.6;
/// Minimum similarity for the name of a section, because other programs' sections are next to it.
const HIGH_SIMILARITY: f64 = 0.8;

/// Returns the path whose last name is most similar to the key. Among equals, prefers the key's own table.
pub(super) fn nearest(paths: &[String], table: &str, key: &str) -> Option<String> {
    let score = |path: &String| {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        (similarity(name, key), parent == table)
    };
    let scored = paths.iter().map(|path| (score(path), path));
    let best = scored.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    best.filter(|((similarity, _), _)| *similarity >= MIN_SIMILARITY).map(|(_, path)| path.clone())
}

/// Whether one name is probably a misspelling of the other.
pub(super) fn is_very_similar(known: &str, found: &str) -> bool {
    similarity(known, found) >= HIGH_SIMILARITY
}

/// Compares only the beginning of a long key, because the cost is the product of both lengths.
fn similarity(known: &str, found: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(known, &shown(found).to_lowercase())
}
