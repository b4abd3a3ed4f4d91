//! Replaces texts in a file, and returns the change as a diff that `patch -R` can undo.
//!
//! Everything else is kept: byte order mark, mode, and bytes that are not UTF-8.

use std::borrow::Cow;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_deadline, group_diff_ops};

use super::batch::Batch;
use super::path::{FilePath, invalid, to_bytes};
use super::replace::{self, check_limit};
use super::workspace::{Change, Workspace};
use crate::limits::{MAX_DIFF_BYTES, MAX_DIFF_LINES, MAX_EDIT_BYTES, MAX_EDITS};

/// How long to search for the shortest diff. After that a longer one is used.
const DIFF: Duration = Duration::from_millis(500);

/// Number of unchanged lines around a change in a diff, as in diff(1).
const CONTEXT: usize = 3;

/// The text in which an edit looks for its old text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditOrder {
    /// The result of the edit before.
    OneAfterAnother,
    /// The file as it was. Edits must not overlap.
    AllOnOriginal,
}

impl Workspace {
    /// Applies all edits, or none.
    pub(crate) fn edit(
        self: &Arc<Self>,
        path: &FilePath,
        edits: &[v1::TextEdit],
        order: EditOrder,
        change: &Change,
    ) -> Result<v1::EditReply, Kind> {
        if edits.is_empty() || edits.len() > MAX_EDITS {
            return Err(invalid("edits", format!("must be 1 to {MAX_EDITS}")));
        }
        let (before, etag) = self.read_text_file(path)?;
        let after = match order {
            EditOrder::OneAfterAnother => replace::one_after_another(&before, edits)?,
            EditOrder::AllOnOriginal => Cow::Owned(replace::all_on_original(&before, edits)?),
        };
        if *after == before[..] {
            return Ok(v1::EditReply { etag, ..v1::EditReply::default() });
        }
        let diff = diff(&before, &after, path)?;
        check_limit("bytes in the diff", diff.len(), MAX_DIFF_BYTES)?;
        let first_changed_line = first_difference(&before, &after);
        let etag = self.replace_file(path, after.into_owned(), etag, change)?;
        Ok(v1::EditReply { diff: diff.into(), first_changed_line, etag })
    }

    fn read_text_file(&self, path: &FilePath) -> Result<(Vec<u8>, String), Kind> {
        let mut reading = self.read(path.clone(), MAX_EDIT_BYTES as u64, None)?;
        let (mut content, mut etag) = (Vec::new(), String::new());
        while let Some(chunk) = reading.next()? {
            etag = chunk.header.and_then(|header| header.info).map_or(etag, |info| info.etag);
            content.extend_from_slice(&chunk.data);
        }
        Ok((content, etag))
    }

    /// Replaces the file if it still has this etag.
    fn replace_file(
        self: &Arc<Self>,
        path: &FilePath,
        content: Vec<u8>,
        etag: String,
        change: &Change,
    ) -> Result<String, Kind> {
        let mut batch = Batch::new(Arc::clone(self));
        let path = to_bytes(&path.relative);
        let head = v1::FileHead { path, if_match: Some(etag), ..v1::FileHead::default() };
        batch.add(v1::FilePart { head: Some(head), data: content.into(), end: true })?;
        Ok(batch.commit(change)?.etag)
    }
}

/// Returns the number of the first line that differs, from 1.
fn first_difference(before: &[u8], after: &[u8]) -> u64 {
    let same = before.iter().zip(after).take_while(|(before, after)| before == after).count();
    1 + memchr::memchr_iter(b'\n', &before[..same]).count() as u64
}

fn diff(before: &[u8], after: &[u8], path: &FilePath) -> Result<Vec<u8>, Kind> {
    let window = Window::around_difference(before, after);
    let (old, new) = (lines(&before[window.old.clone()]), lines(&after[window.new.clone()]));
    check_limit("lines between the first change and the last", old.len().max(new.len()), MAX_DIFF_LINES)?;
    let name = |side: &str| quoted(side, path.relative.as_os_str().as_bytes());
    let mut text = format!("--- {}\n+++ {}\n", name("a"), name("b")).into_bytes();
    for hunk in group_diff_ops(operations(&old, &new), CONTEXT) {
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
fn operations(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let behind = old[before..].iter().rev().zip(new[before..].iter().rev());
    let behind = behind.take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - behind, new.len() - behind);
    let ends_at = Instant::now() + DIFF;
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

/// Returns a name in the form of patch(1): in quotes and with octal escapes if it has special or non-ASCII bytes.
fn quoted(side: &str, name: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\".contains(byte) || *byte == b' ';
    if name.iter().all(is_plain) {
        // patch(1) reads the name up to the tab. It is needed if the name has a space.
        let end = if name.contains(&b' ') { "\t" } else { "" };
        return format!("{side}/{}{end}", String::from_utf8_lossy(name));
    }
    let escaped = name
        .iter()
        .map(|byte| if is_plain(byte) { char::from(*byte).to_string() } else { format!("\\{byte:03o}") });
    format!("\"{side}/{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    fn text_edit(old: &str, new: &str, replace_all: bool) -> v1::TextEdit {
        v1::TextEdit { old_text: old.into(), new_text: new.into(), replace_all }
    }

    fn edited(
        fixture: &Fixture,
        content: &[u8],
        edits: &[v1::TextEdit],
    ) -> Result<(Vec<u8>, v1::EditReply), Kind> {
        let path = fixture.dir.path().join("file");
        fs::write(&path, content).unwrap();
        let reply = fixture.workspace.edit(
            &fixture.path("file"),
            edits,
            EditOrder::OneAfterAnother,
            &fixture.workspace.change_now(),
        )?;
        Ok((fs::read(&path).unwrap(), reply))
    }

    /// Returns the file after `patch -R`.
    fn patched_back(fixture: &Fixture, diff: &Bytes) -> Vec<u8> {
        let mut patch = Command::new("patch");
        patch
            .args(["-R", "-p1", "--binary", "--silent", "--no-backup-if-mismatch"])
            .current_dir(fixture.dir.path());
        let mut patch = patch.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(patch.stdin.as_mut().unwrap(), diff).unwrap();
        assert!(patch.wait().unwrap().success(), "{}", String::from_utf8_lossy(diff));
        fs::read(fixture.dir.path().join("file")).unwrap()
    }

    #[test]
    fn a_text_must_occur_once() {
        let fixture = fixture();
        let count = |content: &[u8], edit| match edited(&fixture, content, &[edit]) {
            Err(Kind::TextCount(count)) => Some((count.edit, count.occurrences)),
            _ => None,
        };
        assert_eq!(count(b"a b a", text_edit("a", "x", false)), Some((0, 2)));
        assert_eq!(count(b"a b a", text_edit("c", "x", true)), Some((0, 0)));
        assert_eq!(fs::read(fixture.dir.path().join("file")).unwrap(), b"a b a");
        assert_eq!(edited(&fixture, b"a b a", &[text_edit("a", "xy", true)]).unwrap().0, b"xy b xy");
        assert_eq!(count(b"aaa", text_edit("aa", "x", false)), Some((0, 2)));
        assert_eq!(count(b"a\r\na\r\na", text_edit("a\na", "x", false)), Some((0, 2)));
        assert_eq!(edited(&fixture, b"aaa", &[text_edit("aa", "x", true)]).unwrap().0, b"xa");
        let edits = [text_edit("b", "c", false), text_edit("absent", "", false)];
        assert!(matches!(edited(&fixture, b"a b a", &edits), Err(Kind::TextCount(count)) if count.edit == 1));
        assert_eq!(fs::read(fixture.dir.path().join("file")).unwrap(), b"a b a");
    }

    #[test]
    fn line_ends_and_invalid_bytes_are_kept() {
        let fixture = fixture();
        let content = b"\xef\xbb\xbfone\r\ntwo\r\n\xff\r\n";
        let (after, reply) = edited(&fixture, content, &[text_edit("one\ntwo", "1\n2", false)]).unwrap();
        assert_eq!(after, b"\xef\xbb\xbf1\r\n2\r\n\xff\r\n");
        assert_eq!(reply.first_changed_line, 1);
        assert_eq!(patched_back(&fixture, &reply.diff), content);
    }

    #[test]
    fn repeated_lines_are_found_at_their_positions() {
        let fixture = fixture();
        let content = b"a\n\n\r\n\r\n\r\n\r\n\n\n\n\n";
        let (after, reply) = edited(&fixture, content, &[text_edit("\r\n\r", "", true)]).unwrap();
        assert_eq!(after, b"a\n\n\n\n\n\n\n\n");
        assert_eq!(patched_back(&fixture, &reply.diff), content);
    }

    #[test]
    fn an_edit_without_effect_is_reported() {
        let (_, reply) = edited(&fixture(), b"a\nb\n", &[text_edit("b", "b", false)]).unwrap();
        assert_eq!((reply.diff.len(), reply.first_changed_line), (0, 0));
    }

    #[test]
    fn a_diff_covers_the_lines_between_the_first_and_the_last_change() {
        let fixture = fixture();
        let short = "\n".repeat(4_000_000);
        let content = format!("first\n{short}needle\n{short}last\n");
        let (_, reply) =
            edited(&fixture, content.as_bytes(), &[text_edit("needle", "found", false)]).unwrap();
        let diff = String::from_utf8(reply.diff.to_vec()).unwrap();
        assert!(diff.ends_with("@@ -3999999,7 +3999999,7 @@\n \n \n \n-needle\n+found\n \n \n \n"), "{diff}");
        assert_eq!(patched_back(&fixture, &reply.diff), content.as_bytes());
        let apart = [text_edit("first", "1", false), text_edit("last", "2", false)];
        let refused = edited(&fixture, content.as_bytes(), &apart);
        assert!(matches!(refused, Err(Kind::TooMany(fault)) if fault.what.starts_with("lines ")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn patch_undoes_every_edit(lines in prop::collection::vec("[ab\r]{0,2}", 1..12), at in 0_usize..12, new in "[ab\n]{0,4}", ends in any::<bool>()) {
            let fixture = fixture();
            let mut content = lines.join("\n");
            if ends { content.push('\n'); }
            let old: String = content.chars().skip(at).take(3).collect();
            if let Ok((_, reply)) = edited(&fixture, content.as_bytes(), &[text_edit(&old, &new, true)])
                && !reply.diff.is_empty()
            {
                // A file that patch leaves empty it removes.
                let back = if content.is_empty() { Vec::new() } else { patched_back(&fixture, &reply.diff) };
                prop_assert_eq!(back, content.into_bytes());
            }
        }
    }
}
