//! Bounds of projects, their tokens and their quotas.

use serde_json::{Value, json};

use super::kinds::{Row, range, text, typed};
use crate::model::limits::*;
use crate::model::{NetworkMode, Scope, Scopes, owner::MAX_PROJECT_BYTES, owner::MAX_SUBJECT_BYTES};

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("CreateProject", "name", project_name()),
        ("CreateToken", "name", token_name()),
        ("CreateToken", "subject", subject()),
        ("CreateToken", "scopes", scopes()),
        ("CreateToken", "ttlMs", range(TOKEN_TTL_MS)),
        ("CreateChildToken", "subject", subject()),
        ("CreateChildToken", "scopes", scopes()),
        ("CreateChildToken", "ttlMs", range(CHILD_TOKEN_TTL_MS)),
        ("CreateTicket", "path", ticket_path()),
        ("RevokeSubject", "subject", subject()),
        ("ChangeProject", "", json!({ "additionalProperties": false })),
        ("Quotas", "", json!({ "additionalProperties": false })),
        ("Quotas", "sandboxes", quota()),
        ("Quotas", "sandboxesPerSubject", quota()),
        ("Quotas", "runningSandboxes", quota()),
        ("Quotas", "memoryMb", quota()),
        ("Quotas", "vcpus", quota()),
        ("Quotas", "diskMb", quota()),
        ("Quotas", "snapshotBytes", quota()),
        ("Quotas", "baseBytes", quota()),
        ("Quotas", "valueBytes", quota()),
        ("Quotas", "commands", quota()),
        ("Quotas", "links", quota()),
        ("Quotas", "egressBytesPerDay", quota()),
        ("Quotas", "guaranteedRunning", range(0..=MAX_GUARANTEED_RUNNING)),
        ("Quotas", "commandTimeoutMs", range(QUOTA_TIMEOUT_MS)),
        (
            "Quotas",
            "images",
            json!({
                "maxItems": MAX_QUOTA_IMAGES,
                "items": typed("string", text(1, MAX_QUOTA_IMAGE_BYTES)),
            }),
        ),
        (
            "Quotas",
            "networkModes",
            json!({
                "maxItems": NetworkMode::ALL.len(),
                "items": { "type": "string", "enum": NetworkMode::ALL.map(NetworkMode::as_str) },
            }),
        ),
        ("listProjects", "limit", projects()),
        ("listTokens", "limit", projects()),
        ("listAudit", "limit", audit_lines()),
    ]
}

fn project_name() -> Value {
    json!({ "maxLength": MAX_PROJECT_BYTES, "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" })
}

/// A control character is not allowed.
fn token_name() -> Value {
    json!({ "minLength": 1, "maxLength": MAX_TOKEN_NAME, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" })
}

fn ticket_path() -> Value {
    json!({ "minLength": 4, "maxLength": MAX_TICKET_PATH_BYTES, "pattern": "^/v1/[!\"$->@-~]*$" })
}

fn subject() -> Value {
    json!({ "maxLength": MAX_SUBJECT_BYTES, "pattern": "^[!-~]+$" })
}

fn scopes() -> Value {
    let names = Scope::ALL.map(Scope::as_str);
    json!({ "minItems": 1, "items": { "type": "string", "enum": names }, "default": Scopes::USE.names() })
}

fn projects() -> Value {
    json!({ "minimum": 1, "maximum": MAX_PROJECT_PAGE, "default": DEFAULT_PROJECT_PAGE })
}

fn audit_lines() -> Value {
    json!({ "minimum": 1, "maximum": MAX_AUDIT_PAGE, "default": DEFAULT_AUDIT_PAGE })
}

fn quota() -> Value {
    range(0..=MAX_QUOTA)
}
