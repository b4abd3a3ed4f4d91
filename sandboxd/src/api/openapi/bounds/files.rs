//! Bounds of files.

use serde_json::{Value, json};

use super::kinds::{Row, base64, one_of, range, text, with_default};
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("WriteFiles", "files", json!({ "minItems": 1, "maxItems": MAX_FILES_PER_WRITE })),
        ("FileToWrite", "path", text(1, MAX_PATH_BYTES)),
        ("FileToWrite", "contentBase64", base64()),
        ("FileToWrite", "mode", json!({ "minimum": 0, "maximum": 0o777 })),
        ("FileRead", "contentBase64", json!({ "contentEncoding": "base64" })),
        ("readFile", "path", text(1, MAX_PATH_BYTES)),
        ("getFile", "path", text(1, MAX_PATH_BYTES)),
        ("putFile", "path", text(1, MAX_PATH_BYTES)),
        ("putFile", "if-match", etag()),
        ("deleteFile", "if-match", etag()),
        ("putFile", "if-none-match", json!({ "enum": ["*"] })),
        ("putFile", "mode", json!({ "pattern": "^(0o)?[0-7]{1,3}$" })),
        ("putFile", "durable", json!({ "default": false })),
        ("deleteFile", "path", text(1, MAX_PATH_BYTES)),
        ("deleteFile", "recursive", json!({ "default": false })),
        ("statFile", "path", text(0, MAX_PATH_BYTES)),
        ("listFiles", "path", text(0, MAX_PATH_BYTES)),
        ("listFiles", "depth", json!({ "minimum": 1, "maximum": MAX_LIST_DEPTH, "default": 1 })),
        (
            "listFiles",
            "limit",
            json!({ "minimum": 1, "maximum": MAX_LIST_ENTRIES, "default": DEFAULT_LIST_ENTRIES }),
        ),
        ("packFiles", "path", text(0, MAX_PATH_BYTES)),
        ("packFiles", "format", one_of(["tar", "tar.gz", "tar.zst"], "tar")),
        ("unpackFiles", "path", text(0, MAX_PATH_BYTES)),
        ("watchFiles", "path", text(0, MAX_PATH_BYTES)),
        ("watchFiles", "recursive", json!({ "default": false })),
        ("MakeDir", "path", text(1, MAX_PATH_BYTES)),
        ("MoveFile", "from", text(1, MAX_PATH_BYTES)),
        ("MoveFile", "to", text(1, MAX_PATH_BYTES)),
        ("MoveFile", "overwrite", json!({ "default": false })),
        ("LinkFile", "path", text(1, MAX_PATH_BYTES)),
        ("LinkFile", "ttlMs", with_default(range(DOWNLOAD_TTL_MS), DEFAULT_DOWNLOAD_TTL.as_millis() as u64)),
        ("EditFile", "path", text(1, MAX_PATH_BYTES)),
        ("EditFile", "edits", json!({ "minItems": 1, "maxItems": MAX_EDITS })),
        ("EditFile", "allOnOriginal", json!({ "default": false })),
        ("TextEdit", "oldText", json!({ "minLength": 1 })),
        ("TextEdit", "replaceAll", json!({ "default": false })),
        ("FileEdited", "diffBase64", json!({ "contentEncoding": "base64" })),
        ("GrepFiles", "query", json!({ "minLength": 1, "maxLength": MAX_PATTERN_BYTES })),
        ("GrepFiles", "path", text(0, MAX_PATH_BYTES)),
        ("GrepFiles", "regex", json!({ "default": false })),
        ("GrepFiles", "caseInsensitive", json!({ "default": false })),
        ("GrepFiles", "maxResults", results()),
        ("GrepFiles", "includeIgnored", json!({ "default": false })),
        ("GlobFiles", "pattern", json!({ "minLength": 1, "maxLength": MAX_PATTERN_BYTES })),
        ("GlobFiles", "path", text(0, MAX_PATH_BYTES)),
        ("GlobFiles", "maxResults", results()),
        ("GlobFiles", "includeIgnored", json!({ "default": false })),
    ]
}

/// `*` or one etag in the form of RFC 9110 section 8.8.3, without a comma, because lists are rejected.
fn etag() -> Value {
    json!({ "pattern": "^(\\*|(W/)?\"[!#-+.-~-]*\")$" })
}

fn results() -> Value {
    json!({ "minimum": 1, "maximum": MAX_SEARCH_RESULTS, "default": DEFAULT_SEARCH_RESULTS })
}
