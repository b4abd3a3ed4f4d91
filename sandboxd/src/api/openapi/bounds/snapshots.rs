//! Bounds of snapshots.

use serde_json::{Value, json};

use super::kinds::{Row, range};
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("MakeSnapshot", "name", snapshot_name()),
        ("importSnapshot", "name", snapshot_name()),
        ("importSnapshot", "ttlMs", range(SNAPSHOT_TTL_MS)),
        ("MakeSnapshot", "ttlMs", range(SNAPSHOT_TTL_MS)),
        ("MakeSnapshot", "pause", json!({ "default": false })),
        ("RestoreSnapshot", "force", json!({ "default": false })),
        ("CheckSnapshots", "readOnly", json!({ "default": false })),
        ("listSnapshots", "limit", snapshots()),
        ("listAllSnapshots", "limit", snapshots()),
        ("compareSnapshots", "limit", snapshots()),
        ("compareSnapshots", "diff", json!({ "default": false })),
        ("SnapshotChange", "diffBase64", json!({ "contentEncoding": "base64" })),
    ]
}

fn snapshot_name() -> Value {
    json!({ "minLength": 1, "maxLength": MAX_SNAPSHOT_NAME, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" })
}

fn snapshots() -> Value {
    json!({ "minimum": 1, "maximum": MAX_SNAPSHOT_PAGE, "default": DEFAULT_SNAPSHOT_PAGE })
}
