//! Bounds of wrapped MCP servers.

use serde_json::{Value, json};

use super::kinds::{Row, argument, map, text, variable};
use crate::model::limits::*;
use crate::model::sandbox::MAX_MAP_ENTRIES;

pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "RegisterMcpServer",
            "name",
            json!({ "pattern": format!("^[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{}}}$", MAX_MCP_NAME_BYTES - 1) }),
        ),
        ("RegisterMcpServer", "cmd", text(1, MAX_PATH_BYTES)),
        ("RegisterMcpServer", "args", json!({ "maxItems": MAX_ARGS, "items": argument() })),
        ("RegisterMcpServer", "cwd", text(0, MAX_PATH_BYTES)),
        ("RegisterMcpServer", "env", map(MAX_MAP_ENTRIES, variable())),
        ("RegisterMcpServer", "unpinned", json!({ "default": false })),
        ("RegisterMcpServer", "allowElicitation", json!({ "default": false })),
        ("RegisterMcpServer", "allowSampling", json!({ "default": false })),
        ("ApproveMcpServer", "", tools_if_hash()),
        ("ApproveMcpServer", "toolsHash", digest()),
        ("ApproveMcpServer", "tools", digests()),
        ("ApproveMcpServer", "version", text(0, MAX_MCP_VERSION_BYTES)),
        ("ApproveMcpServer", "ifUnset", json!({ "default": false })),
    ]
}

/// SHA-256 in hexadecimal.
fn digest() -> Value {
    json!({ "pattern": "^[0-9a-f]{64}$" })
}

fn digests() -> Value {
    let mut digest = digest();
    digest["type"] = "string".into();
    json!({
        "maxProperties": MAX_MCP_TOOLS,
        "propertyNames": { "type": "string", "maxLength": MAX_MCP_TOOL_NAME_BYTES },
        "additionalProperties": digest,
    })
}

/// Digests of tools require that of their list. `null` and an empty map are absent.
fn tools_if_hash() -> Value {
    json!({ "anyOf": [
        { "required": ["toolsHash"], "properties": { "toolsHash": { "not": { "type": "null" } } } },
        { "properties": { "tools": { "maxProperties": 0 } } },
    ] })
}
