//! Bounds of contexts.

use serde_json::json;

use super::kinds::{Row, any_number, map, packages, range, text, variable, with_default};
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("OpenContext", "cwd", text(0, MAX_PATH_BYTES)),
        ("OpenContext", "env", map(MAX_ENV_ENTRIES, variable())),
        ("OpenContext", "tools", json!({ "maxItems": MAX_TOOLS })),
        ("Tool", "name", json!({ "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": MAX_TOOL_NAME_BYTES })),
        ("Tool", "description", text(0, MAX_TOOLS_BYTES)),
        (
            "Tool",
            "timeoutMs",
            with_default(
                range(1..=MAX_TOOL_TIMEOUT.as_millis() as u64),
                DEFAULT_TOOL_TIMEOUT.as_millis() as u64,
            ),
        ),
        ("ToolError", "message", json!({ "maxLength": MAX_TOOL_ERROR_BYTES })),
        ("OpenContext", "packages", packages()),
        ("RunCode", "code", text(0, MAX_CODE_BYTES)),
        ("RunCode", "timeoutMs", with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64)),
    ]
}
