//! Replaces texts in a file, and returns the change as a diff that `patch -R` can undo.
//!
//! Everything else is kept: byte order mark, mode, and bytes that are not UTF-8.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use unified_diff::{Limits, TooManyLines, quoted_in_head};

use super::batch::Batch;
use super::path::{FilePath, invalid, to_bytes};
use super::replace::{self, check_limit};
use super::workspace::{Change, Workspace};
use crate::limits::{MAX_DIFF_BYTES, MAX_DIFF_LINES, MAX_EDIT_BYTES, MAX_EDITS};

/// How long to search for the shortest diff. After that a longer one is used.
const SEARCH: Duration = Duration::from_millis(500);

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
    let limits = Limits { max_lines: MAX_DIFF_LINES, search: SEARCH };
    let hunks = unified_diff::hunks(before, after, limits).map_err(too_many_lines)?;
    let name = |side: &[u8]| quoted_in_head(&[side, path.relative.as_os_str().as_bytes()].concat());
    Ok([format!("--- {}\n+++ {}\n", name(b"a/"), name(b"b/")).as_bytes(), &hunks].concat())
}

fn too_many_lines(TooManyLines { max_lines, .. }: TooManyLines) -> Kind {
    let what = "lines between the first change and the last".into();
    Kind::TooMany(v1::TooMany { what, limit: max_lines as u64 })
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
