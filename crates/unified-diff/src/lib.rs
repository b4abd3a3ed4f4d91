//! Differences of two texts in the form of diff -u, which patch(1) and git apply.
//!
//! Texts are bytes. A line ends at LF only, so every byte comes back: CR, a missing last line end, and what is not UTF-8.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_deadline, group_diff_ops};

/// Number of unchanged lines around a change, as in diff(1).
const CONTEXT: usize = 3;

/// Limits of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of lines between the first change and the last, in each text.
    pub max_lines: usize,
    /// How long to search for the shortest difference. After that a longer one is used.
    pub search: Duration,
}

/// There are more lines between the first change and the last than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {lines} lines between the first change and the last, more than {max_lines}")]
pub struct TooManyLines {
    /// Number of lines.
    pub lines: usize,
    /// The limit.
    pub max_lines: usize,
}

/// Returns the hunks of the difference, without the names of the files. Equal texts have none.
pub fn hunks(before: &[u8], after: &[u8], limits: Limits) -> Result<Vec<u8>, TooManyLines> {
    let mut text = Vec::new();
    if before == after {
        return Ok(text);
    }
    let window = Window::around_difference(before, after);
    let (old, new) = (lines(&before[window.old.clone()]), lines(&after[window.new.clone()]));
    let (lines, max_lines) = (old.len().max(new.len()), limits.max_lines);
    if lines > max_lines {
        return Err(TooManyLines { lines, max_lines });
    }
    for hunk in group_diff_ops(operations(&old, &new, limits.search), CONTEXT) {
        text.extend_from_slice(head_of(&hunk, window.lines_before).as_bytes());
        for change in hunk.iter().flat_map(|operation| operation.iter_changes(&old[..], &new[..])) {
            write_line(&mut text, change.tag(), change.value());
        }
    }
    Ok(text)
}

/// Returns the operations that turn `old` into `new`. Only the lines between common beginnings and ends are compared.
/// Otherwise the last of several equal lines could count as the new one. No line would follow it in its hunk, and
/// patch(1) would take that for the end of the file.
fn operations(old: &[&[u8]], new: &[&[u8]], search: Duration) -> Vec<DiffOp> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let behind = old[before..].iter().rev().zip(new[before..].iter().rev());
    let behind = behind.take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - behind, new.len() - behind);
    let ends_at = Instant::now() + search;
    let mut operations = vec![DiffOp::Equal { old_index: 0, new_index: 0, len: before }];
    operations.extend(capture_diff_deadline(
        Algorithm::Myers,
        old,
        before..old_end,
        new,
        before..new_end,
        Some(ends_at),
    ));
    operations.push(DiffOp::Equal { old_index: old_end, new_index: new_end, len: behind });
    operations.retain(|operation| !matches!(operation, DiffOp::Equal { len: 0, .. }));
    operations
}

/// Splits at LF only. The library's own lines also end at a lone CR.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Whole lines from before the first difference to after the last. The equal lines around them would only use memory.
struct Window {
    old: Range<usize>,
    new: Range<usize>,
    /// Number of lines before the window, in both texts.
    lines_before: usize,
}

impl Window {
    fn around_difference(before: &[u8], after: &[u8]) -> Self {
        let pairs = before.iter().zip(after);
        let same = pairs.take_while(|(before, after)| before == after).count();
        let start = (0..=CONTEXT).fold(same, |at, _| memchr::memrchr(b'\n', &before[..at]).unwrap_or(0));
        let start = if before.get(start) == Some(&b'\n') && start < same { start + 1 } else { start };
        let pairs = before[same..].iter().rev().zip(after[same..].iter().rev());
        let same_behind = pairs.take_while(|(before, after)| before == after).count();
        let rest = &before[before.len() - same_behind..];
        let kept = memchr::memchr_iter(b'\n', rest).nth(CONTEXT).map_or(rest.len(), |newline| newline + 1);
        let behind = rest.len() - kept;
        let lines_before = memchr::memchr_iter(b'\n', &before[..start]).count();
        Self { old: start..before.len() - behind, new: start..after.len() - behind, lines_before }
    }
}

/// Returns `@@ -1,3 +1,4 @@`. Counts as diff(1) does: from 1, and a side without lines from the line before it.
fn head_of(ops: &[DiffOp], lines_before: usize) -> String {
    let side = |range: fn(&DiffOp) -> Range<usize>| {
        let start = ops.first().map_or(0, |op| range(op).start);
        let length = ops.last().map_or(0, |op| range(op).end) - start;
        let start = lines_before + start + usize::from(length > 0);
        if length == 1 { start.to_string() } else { format!("{start},{length}") }
    };
    format!("@@ -{} +{} @@\n", side(DiffOp::old_range), side(DiffOp::new_range))
}

/// Written here because the library treats a lone CR as the end of a line here too.
fn write_line(text: &mut Vec<u8>, tag: ChangeTag, line: &[u8]) {
    text.extend_from_slice(tag.to_string().as_bytes());
    text.extend_from_slice(line);
    if !line.ends_with(b"\n") {
        text.extend_from_slice(b"\n\\ No newline at end of file\n");
    }
}

/// Returns a name in the form of patch(1) and git: in quotes and with octal escapes if it has special or non-ASCII bytes.
pub fn quoted(name: &[u8]) -> String {
    if name.iter().all(is_plain) {
        return String::from_utf8_lossy(name).into_owned();
    }
    let escaped = name
        .iter()
        .map(|byte| if is_plain(byte) { char::from(*byte).to_string() } else { format!("\\{byte:03o}") });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Returns what follows `---` or `+++`: a quoted name. patch(1) reads a name that is not in quotes up to a tab, which is
/// needed if the name has a space.
pub fn quoted_in_head(name: &[u8]) -> String {
    let end = if name.iter().all(is_plain) && name.contains(&b' ') { "\t" } else { "" };
    format!("{}{end}", quoted(name))
}

fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !b"\"\\".contains(byte) || *byte == b' '
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { max_lines: 10_000, search: Duration::from_millis(500) };

    /// What patch(1) makes of a text with these hunks.
    fn patched(before: &[u8], hunks: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, before).unwrap();
        let mut patch = Command::new("patch");
        patch.args(["-p1", "--binary", "--silent", "--no-backup-if-mismatch"]).current_dir(dir.path());
        let mut patch = patch.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = patch.stdin.take().unwrap();
        stdin.write_all(&[b"--- a/file\n+++ b/file\n", hunks].concat()).unwrap();
        drop(stdin);
        assert!(patch.wait().unwrap().success(), "{}", String::from_utf8_lossy(hunks));
        // A file that patch leaves empty it removes.
        std::fs::read(&file).unwrap_or_default()
    }

    #[test]
    fn every_byte_comes_back() {
        for (before, after) in [
            (&b"a\r\nb\n"[..], &b"a\nb\r\n"[..]),
            (b"no end", b"no end\n"),
            (b"\xff\n", b"\xfe"),
            (b"", b"new\n"),
            (b"old\n", b""),
        ] {
            assert_eq!(patched(before, &hunks(before, after, LIMITS).unwrap()), after);
        }
        assert_eq!(hunks(b"a", b"a", LIMITS), Ok(Vec::new()));
    }

    #[test]
    fn lines_between_changes_are_limited() {
        let text =
            |first: &str, last: &str| format!("{first}\n{}{last}\n", "x\n".repeat(20_000)).into_bytes();
        let near = hunks(&text("a", "b"), &text("a", "c"), LIMITS).unwrap();
        assert!(near.starts_with(b"@@ -19999,4 +19999,4 @@\n"), "{}", String::from_utf8_lossy(&near));
        let apart = hunks(&text("a", "b"), &text("c", "d"), LIMITS);
        assert_eq!(apart, Err(TooManyLines { lines: 20_002, max_lines: 10_000 }));
    }

    #[test]
    fn names_are_quoted_where_it_is_needed() {
        assert_eq!(quoted(b"a b"), "a b");
        assert_eq!(quoted_in_head(b"a b"), "a b\t");
        assert_eq!(quoted_in_head(b"a\"\n\xff"), "\"a\\042\\012\\377\"");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn patch_makes_the_second_text_of_the_first(before in "([ab\r]{0,2}\n){0,8}[ab]?", after in "([ab\r]{0,2}\n){0,8}[ab]?") {
            let hunks = hunks(before.as_bytes(), after.as_bytes(), LIMITS).unwrap();
            if !hunks.is_empty() {
                prop_assert_eq!(patched(before.as_bytes(), &hunks), after.into_bytes());
            }
        }
    }
}
