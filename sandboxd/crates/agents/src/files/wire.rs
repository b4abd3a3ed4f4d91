//! Conversions between the protocol and the model.

use agent_protocol::v1::{self, read_file_request};

use super::super::Error;
use sandboxd_model::files::{
    ByteRange, Change, Compression, FileHeader, FileInfo, FileKind, FileTarget, GrepMatch, TextEdit,
    TruncatedBy,
};

pub(super) fn info(wire: v1::FileInfo) -> Result<FileInfo, Error> {
    let kind = match wire.r#type() {
        v1::FileType::File => FileKind::File,
        v1::FileType::Directory => FileKind::Directory,
        v1::FileType::Symlink => FileKind::Symlink,
        v1::FileType::Other => FileKind::Other,
        v1::FileType::Unspecified => return Err(Error::Malformed { missing: "type" }),
    };
    Ok(FileInfo {
        path: wire.path,
        kind,
        size_bytes: wire.size_bytes,
        mode: wire.mode,
        modified_at_ns: wire.modified_at_ns,
        target: wire.target,
        etag: Some(wire.etag).filter(|etag| is_etag(etag)),
    })
}

/// The characters that may stand between quotes in a header (RFC 9110 section 8.8.3).
fn is_etag(etag: &str) -> bool {
    !etag.is_empty() && etag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

pub(super) fn header(wire: v1::FileHeader) -> Result<FileHeader, Error> {
    let info = info(wire.info.ok_or(Error::Malformed { missing: "info" })?)?;
    Ok(FileHeader { info, offset: wire.offset, length: wire.length })
}

pub(super) fn head(target: FileTarget) -> v1::FileHead {
    let FileTarget { path, mode, if_match, if_absent, durable } = target;
    v1::FileHead { path: path.0, mode, if_match, if_absent, durable }
}

pub(super) fn range(range: ByteRange) -> read_file_request::Range {
    match range {
        ByteRange::Span { from, to } => read_file_request::Range::Span(v1::ByteSpan { from, to }),
        ByteRange::Last(last) => read_file_request::Range::Last(last),
    }
}

pub(super) fn text_edit(edit: TextEdit) -> v1::TextEdit {
    let TextEdit { old_text, new_text, replace_all } = edit;
    v1::TextEdit { old_text, new_text, replace_all }
}

pub(super) fn compression(compression: Compression) -> v1::Compression {
    match compression {
        Compression::None => v1::Compression::None,
        Compression::Gzip => v1::Compression::Gzip,
        Compression::Zstd => v1::Compression::Zstd,
    }
}

pub(super) fn change(wire: v1::WatchEvent) -> Result<Change, Error> {
    Ok(match wire.change() {
        v1::Change::Ready => Change::Ready,
        v1::Change::Created => Change::Created(wire.path),
        v1::Change::Modified => Change::Modified(wire.path),
        v1::Change::Deleted => Change::Deleted(wire.path),
        v1::Change::Moved => Change::Moved { from: wire.from, to: wire.path },
        v1::Change::Overflow => Change::Overflow,
        v1::Change::Gone => Change::Gone,
        v1::Change::Unspecified => return Err(Error::Malformed { missing: "change" }),
    })
}

pub(super) fn grep_match(wire: v1::GrepMatch) -> GrepMatch {
    GrepMatch { path: wire.path, line: wire.line, column: wire.column, text: wire.text }
}

pub(super) fn truncated_by(wire: v1::Cut) -> Option<TruncatedBy> {
    match wire {
        v1::Cut::None => None,
        v1::Cut::Results => Some(TruncatedBy::Results),
        v1::Cut::Time => Some(TruncatedBy::Time),
        v1::Cut::Files => Some(TruncatedBy::Files),
    }
}
