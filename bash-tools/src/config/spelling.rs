//! What may have been meant by a key that is not known.

use super::fault::shown;

/// How alike a key must be to be what was meant; 1 is the same.
const ALIKE: f64 = 0.6;
/// The same for the name of a section, whose neighbours are not ours.
const VERY_ALIKE: f64 = 0.8;

/// Of these paths the one whose last name is most like the key; of equals the one of the key's own table.
pub(super) fn nearest(paths: &[String], table: &str, key: &str) -> Option<String> {
    let score = |path: &String| {
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        (likeness(name, key), parent == table)
    };
    let scored = paths.iter().map(|path| (score(path), path));
    let best = scored.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    best.filter(|((likeness, _), _)| *likeness >= ALIKE).map(|(_, path)| path.clone())
}

/// Whether one name is most probably the other, misspelt.
pub(super) fn is_very_alike(known: &str, found: &str) -> bool {
    likeness(known, found) >= VERY_ALIKE
}

/// Only the beginning of a long key is compared, because the effort is that of both lengths multiplied.
fn likeness(known: &str, found: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(known, &shown(found).to_lowercase())
}
