//! Value constraints in the document, from the constants that the daemon checks against.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::operations::operations;
use crate::api::docs_assets;
use crate::model::command::SIGNALS;
use crate::model::limits::*;
use crate::model::owner::{MAX_PROJECT_BYTES, MAX_SUBJECT_BYTES};
use crate::model::sandbox::{DISK_MB, IDLE_TTL_MS, MAX_MAP_ENTRIES, MAX_PORTS, MEMORY_MB, PIDS, VCPUS};
use crate::model::{LimitProfile, NetworkMode, Resources, Runtime, Scope, Scopes, SessionKey};

/// A schema or operation, a field or parameter (empty for the schema itself), and its constraint.
type Row = (&'static str, &'static str, Value);

fn table() -> Vec<Row> {
    let sizes = Resources::default();
    let page = || json!({ "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE });
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
        ("Checkpoints", "afterCommand", json!({ "default": false })),
        ("Checkpoints", "everyMs", range(CHECKPOINT_EVERY_MS)),
        ("Checkpoints", "keep", with_default(range(CHECKPOINTS_KEPT), DEFAULT_CHECKPOINTS_KEPT)),
        ("Resources", "vcpus", with_default(range(VCPUS), sizes.vcpus())),
        ("Resources", "memoryMb", with_default(range(MEMORY_MB), sizes.memory_mb())),
        ("Resources", "diskMb", with_default(range(DISK_MB), sizes.disk_mb())),
        ("Resources", "pids", with_default(range(PIDS), sizes.pids())),
        (
            "Network",
            "mode",
            one_of(NetworkMode::ALL.map(NetworkMode::as_str), NetworkMode::default().as_str()),
        ),
        ("Network", "allow", json!({ "maxItems": MAX_NETWORK_RULES, "items": rule() })),
        ("listDenials", "follow", json!({ "default": false })),
        ("TouchSandbox", "idleTtlMs", range(IDLE_TTL_MS)),
        ("ParkSandbox", "force", json!({ "default": false })),
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
        ("OpenContext", "cwd", text(0, MAX_PATH_BYTES)),
        ("OpenContext", "env", map(MAX_ENV_ENTRIES, variable())),
        ("RunCode", "code", text(0, MAX_CODE_BYTES)),
        ("RunCode", "timeoutMs", with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64)),
        ("OpenTerminal", "", program_if_arguments()),
        ("OpenTerminal", "cmd", text(1, MAX_PATH_BYTES)),
        ("OpenTerminal", "args", json!({ "maxItems": MAX_ARGS, "items": argument() })),
        ("OpenTerminal", "cwd", text(0, MAX_PATH_BYTES)),
        ("OpenTerminal", "env", map(MAX_ENV_ENTRIES, variable())),
        ("OpenTerminal", "cols", with_default(range(1..=MAX_TERMINAL_COLS.into()), DEFAULT_TERMINAL_COLS)),
        ("OpenTerminal", "rows", with_default(range(1..=MAX_TERMINAL_ROWS.into()), DEFAULT_TERMINAL_ROWS)),
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
        ("CreateSandbox", "workspace", either(["WorkspaceSource", "RepositorySource"])),
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
        ("RunInRepository", "command", text(0, MAX_SCRIPT_BYTES)),
        (
            "RunInRepository",
            "timeoutMs",
            with_default(any_number(), DEFAULT_COMMAND_TIMEOUT.as_millis() as u64),
        ),
        ("CreateLink", "ttlMs", range(LINK_TTL_MS)),
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
        ("listHistory", "limit", ended_commands()),
        ("listValues", "limit", value_keys()),
        ("listValues", "prefix", value_prefix()),
        ("getValue", "key", value_key()),
        ("putValue", "key", value_key()),
        ("deleteValue", "key", value_key()),
        ("ResizeTerminal", "cols", range(1..=MAX_TERMINAL_COLS.into())),
        ("ResizeTerminal", "rows", range(1..=MAX_TERMINAL_ROWS.into())),
        ("WriteFiles", "files", json!({ "minItems": 1, "maxItems": MAX_FILES_PER_WRITE })),
        ("FileToWrite", "path", text(1, MAX_PATH_BYTES)),
        ("FileToWrite", "contentBase64", base64()),
        ("FileToWrite", "mode", json!({ "minimum": 0, "maximum": 0o777 })),
        ("FileRead", "contentBase64", json!({ "contentEncoding": "base64" })),
        ("Output", "dataBase64", json!({ "contentEncoding": "base64" })),
        ("MakeSnapshot", "name", snapshot_name()),
        ("importSnapshot", "name", snapshot_name()),
        ("importSnapshot", "ttlMs", range(SNAPSHOT_TTL_MS)),
        ("MakeSnapshot", "ttlMs", range(SNAPSHOT_TTL_MS)),
        ("MakeSnapshot", "pause", json!({ "default": false })),
        ("RestoreSnapshot", "force", json!({ "default": false })),
        ("CheckSnapshots", "readOnly", json!({ "default": false })),
        (
            "ForkSandbox",
            "sessionKeys",
            json!({
                "minItems": 1, "maxItems": MAX_FORKS, "uniqueItems": true,
                "items": typed("string", session_key()),
            }),
        ),
        ("listSnapshots", "limit", snapshots()),
        ("listAllSnapshots", "limit", snapshots()),
        ("compareSnapshots", "limit", snapshots()),
        ("compareSnapshots", "diff", json!({ "default": false })),
        ("SnapshotChange", "diffBase64", json!({ "contentEncoding": "base64" })),
        ("listSandboxes", "sessionKey", session_key()),
        ("listSandboxes", "limit", page()),
        ("deleteSandbox", "snapshots", json!({ "default": false })),
        ("deleteSandbox", "ifState", json!({ "enum": ["parked"] })),
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
        ("docsAsset", "file", json!({ "enum": docs_assets::names() })),
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
        ("findPort", "style", json!({ "enum": ["gateway", "publish"] })),
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

fn ended_commands() -> Value {
    json!({ "minimum": 1, "maximum": MAX_HISTORY_PAGE, "default": DEFAULT_HISTORY_PAGE })
}

fn value_keys() -> Value {
    json!({ "minimum": 1, "maximum": MAX_KEY_PAGE, "default": DEFAULT_KEY_PAGE })
}

fn value_prefix() -> Value {
    json!({ "maxLength": MAX_VALUE_KEY_BYTES, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" })
}

fn value_key() -> Value {
    let not_dots = r"^(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f]+$";
    json!({ "minLength": 1, "maxLength": MAX_VALUE_KEY_BYTES, "pattern": not_dots })
}

fn quota() -> Value {
    range(0..=MAX_QUOTA)
}

fn snapshot_name() -> Value {
    json!({ "minLength": 1, "maxLength": MAX_SNAPSHOT_NAME, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" })
}

fn snapshots() -> Value {
    json!({ "minimum": 1, "maximum": MAX_SNAPSHOT_PAGE, "default": DEFAULT_SNAPSHOT_PAGE })
}

/// Writes the constraints into the document.
pub(super) fn apply(document: &mut Value) {
    for (owner, field, bound) in table() {
        let Some(schema) = schema_of(document, owner, field) else { continue };
        // A nullable field stays nullable.
        let is_nullable = schema["type"].as_array().is_some_and(|types| types.contains(&"null".into()));
        for (name, value) in bound.as_object().into_iter().flatten() {
            schema[name] = value.clone();
            if let (true, "enum", Some(values)) = (is_nullable, name.as_str(), schema[name].as_array_mut()) {
                values.push(Value::Null);
            }
        }
    }
}

fn schema_of<'a>(document: &'a mut Value, owner: &str, field: &str) -> Option<&'a mut Value> {
    if document["components"]["schemas"].get(owner).is_some() {
        let schema = &mut document["components"]["schemas"][owner];
        return if field.is_empty() { Some(schema) } else { schema["properties"].get_mut(field) };
    }
    let operation = operations(document).find(|operation| operation["operationId"] == owner)?;
    let mut parameters = operation["parameters"].as_array_mut()?.iter_mut();
    parameters.find(|parameter| parameter["name"] == field)?.get_mut("schema")
}

fn range(range: RangeInclusive<u64>) -> Value {
    json!({ "minimum": range.start(), "maximum": range.end() })
}

/// Any number, because the daemon clamps it to its own range.
fn any_number() -> Value {
    json!({ "minimum": 0, "maximum": u64::MAX, "format": "uint64" })
}

fn with_default(mut bound: Value, default: impl Into<Value>) -> Value {
    bound["default"] = default.into();
    bound
}

fn one_of<const N: usize>(names: [&str; N], default: &str) -> Value {
    json!({ "enum": names.as_slice(), "default": default })
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

/// Arguments require a program. `null` is absent.
fn program_if_arguments() -> Value {
    let (present, absent) = (json!({ "not": { "type": "null" } }), json!({ "type": "null" }));
    json!({ "anyOf": [
        { "required": ["cmd"], "properties": { "cmd": present } },
        { "properties": { "args": absent } },
    ] })
}

/// Text without NUL, with a length in bytes. A schema counts characters, of which there are never more than bytes.
fn text(min: usize, max: usize) -> Value {
    json!({ "minLength": min, "maxLength": max, "pattern": "^[^\\u0000]*$" })
}

fn argument() -> Value {
    let mut argument = text(0, MAX_SCRIPT_BYTES);
    argument["type"] = "string".into();
    argument
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

/// `*` or one etag in the form of RFC 9110 section 8.8.3, without a comma, because lists are rejected.
fn etag() -> Value {
    json!({ "pattern": "^(\\*|(W/)?\"[!#-+.-~-]*\")$" })
}

/// Text without control characters, and without white space at its ends.
fn session_key() -> Value {
    let (any, ink) = (r"[^\u0000-\u001f\u007f-\u009f]*", r"[^\u0000-\u001f\u007f-\u009f\s]");
    json!({ "minLength": 1, "maxLength": SessionKey::MAX_BYTES, "pattern": format!("^{ink}(?:{any}{ink})?$") })
}

/// A constraint with its type, for the items of an array.
fn typed(kind: &str, mut bound: Value) -> Value {
    bound["type"] = kind.into();
    bound
}

/// A host with an optional port, in every form that a response uses. Requests accept other scripts too.
fn rule() -> Value {
    let label = "[A-Za-z0-9_-]{1,63}";
    // Excludes anything that could be a number.
    let last = "(?!0[Xx])[A-Za-z0-9_-]{0,31}[A-Za-z_-][A-Za-z0-9_-]{0,31}";
    let name = format!(r"(?![A-Za-z0-9._-]{{254}})(?:{label}\.){{0,126}}{last}\.?");
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let v4 = format!(r"{byte}(?:\.{byte}){{3}}");
    let v6 = ipv6(&v4);
    let port =
        "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?";
    json!({
        "type": "string",
        "maxLength": MAX_NETWORK_RULE_BYTES,
        "pattern": format!(r"^(?:(?:\*|(?:\*\.)?{name}|{v4}|\[{v6}\]){port}|{v6})$"),
    })
}

/// IPv6 address (RFC 4291, section 2.2), with an embedded IPv4 address only where Rust writes one.
fn ipv6(v4: &str) -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let mut forms = vec![format!("(?:{group}:){{7}}{group}"), format!("::[Ff]{{4}}:{v4}")];
    // `before` groups precede the gap. The rest leaves room for at least one group of zeros.
    for before in 0..8 {
        let head = if before == 0 { ":".to_owned() } else { format!("(?:{group}:){{{before}}}") };
        let tail = match 7 - before {
            0 => ":".to_owned(),
            room => format!("(?:(?::{group}){{1,{room}}}|:)"),
        };
        forms.push(format!("{head}{tail}"));
    }
    format!("(?:{})", forms.join("|"))
}

fn map(max: usize, names: Value) -> Value {
    let values = json!({ "type": "string", "pattern": "^[^\\u0000]*$" });
    json!({ "maxProperties": max, "propertyNames": names, "additionalProperties": values })
}

fn name() -> Value {
    json!({ "minLength": 1, "pattern": "^[^\\u0000]*$" })
}

fn variable() -> Value {
    json!({ "minLength": 1, "pattern": "^[^=\\u0000]*$" })
}

/// Base64 in the form of RFC 4648 section 4, without stray bits.
fn base64() -> Value {
    json!({
        "contentEncoding": "base64",
        "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$",
    })
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

/// One of several objects, or null.
fn either(schemas: [&str; 2]) -> Value {
    let [first, second] = schemas.map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }));
    json!({ "oneOf": [first, second, null_only()] })
}

fn ref_or_version() -> Value {
    json!({ "anyOf": [{ "properties": { "ref": null_only() } }, { "properties": { "version": null_only() } }] })
}

fn null_only() -> Value {
    json!({ "type": "null" })
}

fn results() -> Value {
    json!({ "minimum": 1, "maximum": MAX_SEARCH_RESULTS, "default": DEFAULT_SEARCH_RESULTS })
}

fn signals() -> Vec<&'static str> {
    SIGNALS.iter().flat_map(|(name, _)| [Some(*name), name.strip_prefix("SIG")]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::router;

    #[test]
    fn every_constraint_is_in_the_document() {
        let mut document = serde_json::from_slice(&router::document()).unwrap();
        for (owner, field, bound) in table() {
            let schema = schema_of(&mut document, owner, field);
            let schema = schema.unwrap_or_else(|| panic!("no {field} of {owner}"));
            for (name, value) in bound.as_object().unwrap() {
                let found = &schema[name];
                let holds = found == value || (name == "enum" && found.as_array().is_some());
                assert!(holds, "{name} of {field} of {owner}: {found}");
            }
        }
    }
}
