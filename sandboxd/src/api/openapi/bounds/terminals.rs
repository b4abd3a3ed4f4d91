//! Bounds of terminals.

use serde_json::{Value, json};

use super::kinds::{Row, argument, map, range, text, variable, with_default};
use crate::model::limits::*;

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("OpenTerminal", "", program_if_arguments()),
        ("OpenTerminal", "cmd", text(1, MAX_PATH_BYTES)),
        ("OpenTerminal", "args", json!({ "maxItems": MAX_ARGS, "items": argument() })),
        ("OpenTerminal", "cwd", text(0, MAX_PATH_BYTES)),
        ("OpenTerminal", "env", map(MAX_ENV_ENTRIES, variable())),
        ("OpenTerminal", "cols", with_default(range(1..=MAX_TERMINAL_COLS.into()), DEFAULT_TERMINAL_COLS)),
        ("OpenTerminal", "rows", with_default(range(1..=MAX_TERMINAL_ROWS.into()), DEFAULT_TERMINAL_ROWS)),
        ("ResizeTerminal", "cols", range(1..=MAX_TERMINAL_COLS.into())),
        ("ResizeTerminal", "rows", range(1..=MAX_TERMINAL_ROWS.into())),
    ]
}

/// Arguments require a program. `null` is absent.
fn program_if_arguments() -> Value {
    let (present, absent) = (json!({ "not": { "type": "null" } }), json!({ "type": "null" }));
    json!({ "anyOf": [
        { "required": ["cmd"], "properties": { "cmd": present } },
        { "properties": { "args": absent } },
    ] })
}
