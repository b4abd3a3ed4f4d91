//! Bounds of sandboxes.

use serde_json::{Value, json};

use super::kinds::{Row, map, name, null_only, one_of, packages, page, range, typed, variable, with_default};
use crate::model::limits::*;
use crate::model::{
    Resources, Runtime, SessionKey, sandbox::DISK_MB, sandbox::IDLE_TTL_MS, sandbox::MAX_MAP_ENTRIES,
    sandbox::MAX_PORTS, sandbox::MEMORY_MB, sandbox::PIDS, sandbox::VCPUS,
};

pub(super) fn rows() -> Vec<Row> {
    let sizes = Resources::default();
    vec![
        ("CreateSandbox", "sessionKey", session_key()),
        ("CreateSandbox", "runtime", one_of(Runtime::ALL.map(Runtime::as_str), Runtime::default().as_str())),
        ("CreateSandbox", "idleTtlMs", range(IDLE_TTL_MS)),
        (
            "CreateSandbox",
            "ports",
            json!({
                "maxItems": MAX_PORTS,
                "items": { "type": "integer", "format": "int32", "minimum": 1, "maximum": u16::MAX },
            }),
        ),
        ("CreateSandbox", "env", map(MAX_MAP_ENTRIES, variable())),
        ("CreateSandbox", "metadata", map(MAX_MAP_ENTRIES, name())),
        ("CreateSandbox", "packages", packages()),
        ("Checkpoints", "afterCommand", json!({ "default": false })),
        ("Checkpoints", "everyMs", range(CHECKPOINT_EVERY_MS)),
        ("Checkpoints", "keep", with_default(range(CHECKPOINTS_KEPT), DEFAULT_CHECKPOINTS_KEPT)),
        ("Resources", "vcpus", with_default(range(VCPUS), sizes.vcpus())),
        ("Resources", "memoryMb", with_default(range(MEMORY_MB), sizes.memory_mb())),
        ("Resources", "diskMb", with_default(range(DISK_MB), sizes.disk_mb())),
        ("Resources", "pids", with_default(range(PIDS), sizes.pids())),
        ("TouchSandbox", "idleTtlMs", range(IDLE_TTL_MS)),
        ("ParkSandbox", "force", json!({ "default": false })),
        ("CreateSandbox", "workspace", either(["WorkspaceSource", "RepositorySource"])),
        (
            "ForkSandbox",
            "sessionKeys",
            json!({
                "minItems": 1, "maxItems": MAX_FORKS, "uniqueItems": true,
                "items": typed("string", session_key()),
            }),
        ),
        ("listSandboxes", "sessionKey", session_key()),
        ("listSandboxes", "limit", page()),
        ("deleteSandbox", "snapshots", json!({ "default": false })),
        ("deleteSandbox", "ifState", json!({ "enum": ["parked"] })),
    ]
}

/// Text without control characters, and without white space at its ends.
pub(super) fn session_key() -> Value {
    let (any, ink) = (r"[^\u0000-\u001f\u007f-\u009f]*", r"[^\u0000-\u001f\u007f-\u009f\s]");
    json!({ "minLength": 1, "maxLength": SessionKey::MAX_BYTES, "pattern": format!("^{ink}(?:{any}{ink})?$") })
}

/// One of several objects, or null.
fn either(schemas: [&str; 2]) -> Value {
    let [first, second] = schemas.map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }));
    json!({ "oneOf": [first, second, null_only()] })
}
