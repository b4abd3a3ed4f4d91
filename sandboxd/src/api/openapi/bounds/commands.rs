//! Bounds of commands.

use serde_json::{Value, json};

use super::kinds::{
    Row, any_number, argument, base64, map, one_of, page, range, text, variable, with_default,
};
use crate::model::limits::*;
use crate::model::{LimitProfile, command::SIGNALS};

pub(super) fn rows() -> Vec<Row> {
    vec![
        ("StartCommand", "", either_script_or_program()),
        ("StartCommand", "cmd", with_default(text(1, MAX_PATH_BYTES), "bash")),
        ("StartCommand", "args", json!({ "maxItems": MAX_ARGS, "items": argument() })),
        ("StartCommand", "script", text(0, MAX_SCRIPT_BYTES)),
        ("StartCommand", "cwd", text(0, MAX_PATH_BYTES)),
        ("StartCommand", "env", map(MAX_ENV_ENTRIES, variable())),
        ("StartCommand", "stdin", json!({ "maxLength": MAX_STDIN_BYTES })),
        ("StartCommand", "stdinBase64", base64()),
        ("StartCommand", "timeoutMs", with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64)),
        ("StartCommand", "detached", json!({ "default": false })),
        ("StartCommand", "limits", json!({ "enum": LimitProfile::ALL.map(LimitProfile::name) })),
        ("StartCommand", "capture", json!({ "enum": ["stages"] })),
        ("StartCommand", "passive", json!({ "default": false })),
        ("StartCommand", "openStdin", json!({ "default": false })),
        ("StartCommand", "readOnly", json!({ "default": false })),
        ("StartCommand", "debug", json!({ "default": false })),
        ("Script", "", text(0, MAX_SCRIPT_BYTES)),
        ("StartCommand", "saveOutput", json!({ "default": false })),
        ("OutputOptions", "keep", one_of(["head", "tail", "both"], "both")),
        ("OutputOptions", "maxChars", with_default(range(1..=MAX_OUTPUT_CHARS), DEFAULT_OUTPUT_CHARS)),
        ("OutputOptions", "maxTokens", range(1..=MAX_OUTPUT_TOKENS)),
        ("OutputOptions", "", one_size()),
        ("KillCommand", "signal", json!({ "enum": signals() })),
        ("listHistory", "limit", ended_commands()),
        ("Output", "dataBase64", json!({ "contentEncoding": "base64" })),
        ("listCommands", "limit", page()),
        ("waitForCommand", "timeoutMs", any_number()),
        ("RunBatch", "", parallel_if_read_only()),
        ("RunBatch", "commands", batch()),
        ("RunBatch", "continueOnError", json!({ "default": false })),
        ("RunBatch", "parallel", with_default(range(1..=MAX_BATCH_PARALLEL), 1)),
        ("BatchEnded", "stdoutBase64", json!({ "contentEncoding": "base64" })),
        ("BatchEnded", "stderrBase64", json!({ "contentEncoding": "base64" })),
        ("writeStdin", "close", json!({ "default": false })),
        ("readCommandLogs", "after", with_default(any_number(), 0)),
        ("readCommandLogs", "follow", json!({ "default": true })),
    ]
}

/// A script alone, or a program or arguments without a script, and at most one form of standard input. `null` is
/// absent.
fn either_script_or_program() -> Value {
    let (present, absent) = (json!({ "not": { "type": "null" } }), json!({ "type": "null" }));
    let stdin_twice = json!({
        "required": ["stdin", "stdinBase64"], "properties": { "stdin": present, "stdinBase64": present },
    });
    // A schema of properties holds if they are missing, so its opposite requires them.
    let debug_has_script = json!({ "anyOf": [
        { "properties": { "debug": { "not": { "const": true } } } },
        { "not": { "properties": { "script": absent } } },
    ] });
    json!({ "not": stdin_twice, "dependentSchemas": { "debug": debug_has_script }, "oneOf": [
        { "title": "A script", "required": ["script"],
          "properties": { "script": present, "cmd": absent, "args": absent } },
        { "title": "A program", "required": ["cmd"], "properties": { "cmd": present, "script": absent } },
        { "title": "Arguments for bash", "required": ["args"],
          "properties": { "args": present, "cmd": absent, "script": absent } },
    ] })
}

/// Only read-only commands run in parallel.
fn parallel_if_read_only() -> Value {
    let reads = json!({ "required": ["readOnly"], "properties": { "readOnly": { "const": true } } });
    json!({ "dependentSchemas": { "parallel": { "anyOf": [
        { "properties": { "parallel": { "maximum": 1 } } },
        { "properties": { "commands": { "items": reads } } },
    ] } } })
}

/// A batch rejects `openStdin`, because nothing could write to the command.
fn batch() -> Value {
    let start = json!({ "$ref": "#/components/schemas/StartCommand" });
    let closed = json!({ "properties": { "openStdin": { "enum": [false, null] } } });
    json!({ "minItems": 1, "maxItems": MAX_BATCH_COMMANDS, "items": { "allOf": [start, closed] } })
}

/// A limit in characters and one in tokens exclude each other.
fn one_size() -> Value {
    let without = |field: &str| json!({ "properties": { field: { "type": "null" } } });
    json!({ "anyOf": [without("maxChars"), without("maxTokens")] })
}

fn signals() -> Vec<&'static str> {
    SIGNALS.iter().flat_map(|(name, _)| [Some(*name), name.strip_prefix("SIG")]).flatten().collect()
}

fn ended_commands() -> Value {
    json!({ "minimum": 1, "maximum": MAX_HISTORY_PAGE, "default": DEFAULT_HISTORY_PAGE })
}
