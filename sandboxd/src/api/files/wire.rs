//! Conversions between wire and model types of files.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use jiff::Timestamp;
use sandbox_api::files::{
    FileEdited, FileInfo, FileKind, FileList, GlobFound, GrepFound, GrepMatch, TruncatedBy, WatchRecord,
};

use crate::model::files::{self, Change, Edited, FilePage, Found};
use crate::model::{FieldError, limits};

pub(super) fn info(info: files::FileInfo) -> FileInfo {
    let (path, path_base64) = text(&info.path);
    FileInfo {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        path,
        path_base64,
        kind: match info.kind {
            files::FileKind::File => FileKind::File,
            files::FileKind::Directory => FileKind::Directory,
            files::FileKind::Symlink => FileKind::Symlink,
            files::FileKind::Other => FileKind::Other,
        },
        size: info.size_bytes,
        mode: info.mode,
        modified_at: time(info.modified_at_ns),
        target: info.target.map(|target| text(&target).0),
        etag: info.etag,
    }
}

pub(super) fn page(page: FilePage) -> FileList {
    let next_cursor =
        page.entries.last().filter(|_| page.more).map(|last| BASE64_URL_SAFE_NO_PAD.encode(&last.path));
    FileList { entries: page.entries.into_iter().map(info).collect(), next_cursor }
}

/// Decodes a cursor: the path of the last entry of the previous page.
pub(super) fn from_cursor(cursor: &str) -> Result<Bytes, FieldError> {
    let path = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let path = path.filter(|path| (1..=limits::MAX_PATH_BYTES).contains(&path.len()) && !path.contains(&0));
    path.map(Bytes::from).ok_or_else(|| FieldError::new("cursor", "must be the `nextCursor` of a list"))
}

pub(super) fn edited(edited: Edited) -> FileEdited {
    let (diff, diff_base64) = text(&edited.diff);
    let first_changed_line = Some(edited.first_changed_line).filter(|line| *line > 0);
    FileEdited { diff, diff_base64, first_changed_line, etag: edited.etag }
}

pub(super) fn grep_found(found: Found<files::GrepMatch>) -> GrepFound {
    let matches = found.results.into_iter().map(|found| {
        let (path, path_base64) = text(&found.path);
        let (line, column) = (found.line, found.column.saturating_add(1));
        GrepMatch { path, path_base64, line, column, text: text(&found.text).0 }
    });
    GrepFound {
        matches: matches.collect(),
        truncated: found.truncated_by.is_some(),
        truncated_by: found.truncated_by.map(truncated_by),
    }
}

pub(super) fn glob_found(found: Found<files::FileInfo>) -> GlobFound {
    let entries = found.results.into_iter().map(info).collect();
    GlobFound {
        entries,
        truncated: found.truncated_by.is_some(),
        truncated_by: found.truncated_by.map(truncated_by),
    }
}

fn truncated_by(cut: files::TruncatedBy) -> TruncatedBy {
    match cut {
        files::TruncatedBy::Results => TruncatedBy::Results,
        files::TruncatedBy::Time => TruncatedBy::Time,
        files::TruncatedBy::Files => TruncatedBy::Files,
    }
}

pub(super) fn change(change: Change) -> WatchRecord {
    match change {
        Change::Ready => WatchRecord::Ready,
        Change::Created(path) => {
            let (path, path_base64) = text(&path);
            WatchRecord::Created { path, path_base64 }
        }
        Change::Modified(path) => {
            let (path, path_base64) = text(&path);
            WatchRecord::Modified { path, path_base64 }
        }
        Change::Deleted(path) => {
            let (path, path_base64) = text(&path);
            WatchRecord::Deleted { path, path_base64 }
        }
        Change::Moved { from, to } => {
            let (path, path_base64) = text(&to);
            WatchRecord::Moved { path, path_base64, from: text(&from).0 }
        }
        Change::Overflow => WatchRecord::Overflow,
        Change::Gone => WatchRecord::Gone,
    }
}

/// Returns text, and base64 if the bytes are not valid UTF-8.
fn text(bytes: &Bytes) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Some(BASE64_STANDARD.encode(bytes))),
    }
}

fn time(ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_utf8_is_also_encoded() {
        assert_eq!(text(&Bytes::from_static(b"a\xff")), ("a\u{fffd}".into(), Some("Yf8=".into())));
        assert_eq!(text(&Bytes::from_static("é".as_bytes())), ("é".into(), None));
    }

    #[test]
    fn an_invalid_cursor_is_rejected() {
        assert_eq!(from_cursor(&BASE64_URL_SAFE_NO_PAD.encode("a/b")).unwrap(), "a/b");
        for cursor in ["", "!", "AA", &"A".repeat(8000)] {
            assert!(from_cursor(cursor).is_err(), "{cursor}");
        }
    }
}
