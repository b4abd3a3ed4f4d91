//! Bounds of repositories.

use serde_json::{Value, json};

use super::kinds::{Row, any_number, null_only, text, with_default};
use super::sandboxes::session_key;
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("RepositorySource", "", ref_or_version()),
        ("RepositorySource", "repository", text(1, MAX_REPOSITORY_BYTES)),
        ("RepositorySource", "ref", text(1, MAX_GIT_REF_BYTES)),
        ("RepositorySource", "version", text(1, MAX_PACKAGE_VERSION_BYTES)),
        ("queryRepository", "repository", text(1, MAX_REPOSITORY_BYTES)),
        ("queryRepository", "ref", text(1, MAX_GIT_REF_BYTES)),
        ("queryRepository", "version", text(1, MAX_PACKAGE_VERSION_BYTES)),
        ("queryRepository", "command", text(0, MAX_QUERY_SCRIPT_BYTES)),
        (
            "queryRepository",
            "timeoutMs",
            with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64),
        ),
        ("RunInRepository", "", ref_or_version()),
        ("RunInRepository", "repository", text(1, MAX_REPOSITORY_BYTES)),
        ("RunInRepository", "ref", text(1, MAX_GIT_REF_BYTES)),
        ("RunInRepository", "version", text(1, MAX_PACKAGE_VERSION_BYTES)),
        ("RunInRepository", "sessionKey", session_key()),
        ("RunInRepository", "command", text(0, MAX_SCRIPT_BYTES)),
        (
            "RunInRepository",
            "timeoutMs",
            with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64),
        ),
    ]
}

fn ref_or_version() -> Value {
    json!({ "anyOf": [{ "properties": { "ref": null_only() } }, { "properties": { "version": null_only() } }] })
}
