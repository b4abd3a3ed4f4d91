//! Replaces texts in the content of a file.
//!
//! A text must occur exactly once unless the edit says otherwise. If it occurs more often, it is
//! unclear which occurrence the caller means. If it does not occur, the caller has not seen the current file. If the lines of a file end in CR LF, an edit may use LF alone, because models and people write
//! that.

use std::borrow::Cow;
use std::ops::Range;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use memchr::memmem;

use super::path::invalid;
use crate::limits::{MAX_EDIT_BYTES, MAX_REPLACEMENTS};

/// The occurrences of an edit's old text, in order, and what replaces each.
struct Found<'a> {
    ranges: Vec<Range<usize>>,
    new: Cow<'a, [u8]>,
}

/// A range to replace.
struct Replacement<'a> {
    range: Range<usize>,
    new: &'a [u8],
    /// Index of the edit.
    edit: usize,
}

/// Applies each edit to the result of the one before.
pub(super) fn one_after_another<'a>(
    content: &'a [u8],
    edits: &[v1::TextEdit],
) -> Result<Cow<'a, [u8]>, Kind> {
    let (mut result, mut left) = (Cow::Borrowed(content), MAX_REPLACEMENTS);
    for (at, edit) in edits.iter().enumerate() {
        let found = find(&result, at, edit, &mut left)?;
        let replacements: Vec<_> = found.replacements(at).collect();
        result = Cow::Owned(replace(&result, &replacements)?);
    }
    Ok(result)
}

/// Applies all edits to `content` itself, in any order. Fails if two of them change the same text.
pub(super) fn all_on_original(content: &[u8], edits: &[v1::TextEdit]) -> Result<Vec<u8>, Kind> {
    let mut left = MAX_REPLACEMENTS;
    let found: Result<Vec<Found<'_>>, Kind> =
        edits.iter().enumerate().map(|(at, edit)| find(content, at, edit, &mut left)).collect();
    let found = found?;
    let mut replacements: Vec<_> =
        found.iter().enumerate().flat_map(|(at, found)| found.replacements(at)).collect();
    replacements.sort_by_key(|replacement| replacement.range.start);
    for pair in replacements.windows(2) {
        if let [first, second] = pair
            && second.range.start < first.range.end
        {
            let (one, other) = (first.edit.min(second.edit), first.edit.max(second.edit));
            let problem = format!("overlaps the text of `edits[{one}]`");
            return Err(invalid(&format!("edits[{other}].oldText"), problem));
        }
    }
    replace(content, &replacements)
}

impl Found<'_> {
    fn replacements(&self, edit: usize) -> impl Iterator<Item = Replacement<'_>> {
        self.ranges.iter().map(move |range| Replacement { range: range.clone(), new: &self.new, edit })
    }
}

/// Finds the occurrences of the edit's old text that it replaces, at most `left`, and subtracts their number.
fn find<'a>(content: &[u8], at: usize, edit: &'a v1::TextEdit, left: &mut usize) -> Result<Found<'a>, Kind> {
    if edit.old_text.is_empty() {
        return Err(invalid(&format!("edits[{at}].oldText"), "must not be empty"));
    }
    let (mut old, mut new) =
        (Cow::Borrowed(edit.old_text.as_bytes()), Cow::Borrowed(edit.new_text.as_bytes()));
    let mut found = positions(content, &old, *left)?;
    if memmem::find(content, b"\r\n").is_some() {
        if found.is_empty() {
            old = with_crlf(edit.old_text.as_bytes());
            found = positions(content, &old, *left)?;
        }
        new = with_crlf(edit.new_text.as_bytes());
    }
    let mut occurrences = found.len() as u64;
    // If occurrences overlap, only the first is found. The intended one is then ambiguous.
    if let [position] = found[..]
        && memmem::find(&content[position + 1..], &old).is_some()
    {
        occurrences = 2;
    }
    if occurrences == 0 || (occurrences > 1 && !edit.replace_all) {
        return Err(Kind::TextCount(v1::TextCount { edit: at as u32, occurrences }));
    }
    *left -= found.len();
    let length = old.len();
    Ok(Found { ranges: found.into_iter().map(|position| position..position + length).collect(), new })
}

/// Positions of a text, at most `max`.
fn positions(content: &[u8], text: &[u8], max: usize) -> Result<Vec<usize>, Kind> {
    let positions: Vec<usize> = memmem::find_iter(content, text).take(max + 1).collect();
    if positions.len() > max {
        return Err(too_many("replacements", MAX_REPLACEMENTS));
    }
    Ok(positions)
}

/// Replaces ranges that are in order and do not overlap.
fn replace(content: &[u8], replacements: &[Replacement<'_>]) -> Result<Vec<u8>, Kind> {
    let removed: usize = replacements.iter().map(|replacement| replacement.range.len()).sum();
    let added: usize = replacements.iter().map(|replacement| replacement.new.len()).sum();
    let length = content.len() - removed + added;
    check_limit("bytes in the edited file", length, MAX_EDIT_BYTES)?;
    let mut result = Vec::with_capacity(length);
    let mut from = 0;
    for Replacement { range, new, .. } in replacements {
        result.extend_from_slice(&content[from..range.start]);
        result.extend_from_slice(new);
        from = range.end;
    }
    result.extend_from_slice(&content[from..]);
    Ok(result)
}

/// Checks a number that has a limit.
pub(super) fn check_limit(what: &str, count: usize, max: usize) -> Result<(), Kind> {
    if count <= max {
        return Ok(());
    }
    Err(too_many(what, max))
}

fn too_many(what: &str, limit: usize) -> Kind {
    Kind::TooMany(v1::TooMany { what: what.into(), limit: limit as u64 })
}

/// Returns the text with CR LF at the end of each line.
fn with_crlf(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut lines = Vec::with_capacity(text.len() + 64);
    for (at, byte) in text.iter().enumerate() {
        if *byte == b'\n' && (at == 0 || text[at - 1] != b'\r') {
            lines.push(b'\r');
        }
        lines.push(*byte);
    }
    Cow::Owned(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<v1::TextEdit> {
        let edit = |(old, new): &(&str, &str)| v1::TextEdit {
            old_text: (*old).into(),
            new_text: (*new).into(),
            replace_all: false,
        };
        pairs.iter().map(edit).collect()
    }

    #[test]
    fn an_edit_sees_the_result_of_the_one_before_or_the_original() {
        let swap = edits(&[("one", "two"), ("two", "one")]);
        assert!(
            matches!(one_after_another(b"one two", &swap), Err(Kind::TextCount(count)) if count.edit == 1)
        );
        assert_eq!(all_on_original(b"one two", &swap).unwrap(), b"two one");
        let chain = edits(&[("a", "b"), ("b", "c")]);
        assert_eq!(*one_after_another(b"a", &chain).unwrap(), *b"c");
        assert!(matches!(all_on_original(b"a", &chain), Err(Kind::TextCount(count)) if count.edit == 1));
    }

    #[test]
    fn edits_of_the_original_may_be_in_any_order_and_touch() {
        let reversed = edits(&[("c", "3"), ("ab", "12")]);
        assert_eq!(all_on_original(b"abc", &reversed).unwrap(), b"123");
    }

    #[test]
    fn edits_of_the_same_text_are_rejected() {
        let both = edits(&[("bc", "x"), ("ab", "y")]);
        let Err(Kind::FieldInvalid(fault)) = all_on_original(b"abc", &both) else { panic!("it was applied") };
        assert_eq!(
            (fault.field.as_str(), fault.problem.as_str()),
            ("edits[1].oldText", "overlaps the text of `edits[0]`")
        );
    }

    #[test]
    fn the_replacements_of_a_request_are_limited() {
        let every = v1::TextEdit { old_text: "a".into(), new_text: "b".into(), replace_all: true };
        let content = "a".repeat(MAX_REPLACEMENTS);
        assert!(all_on_original(content.as_bytes(), std::slice::from_ref(&every)).is_ok());
        for content in [content.clone() + "a", content] {
            let edits = vec![every.clone(); 256];
            assert!(matches!(all_on_original(content.as_bytes(), &edits), Err(Kind::TooMany(_))));
        }
    }

    #[test]
    fn a_result_that_is_too_long_is_rejected() {
        let new = "x".repeat(MAX_EDIT_BYTES);
        let grow = edits(&[("a", &new)]);
        assert!(matches!(all_on_original(b"ab", &grow), Err(Kind::TooMany(_))));
    }
}
