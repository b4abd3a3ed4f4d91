//! Examples: one for each body. Some work on a daemon unchanged.
//!
//! Each is decoded with its wire type, so its shape cannot differ.

use sandbox_api::batch::RunBatch;
use sandbox_api::command::{
    Command, CommandEnded, CommandKilled, CommandRan, CommandStarted, KillCommand, RunCommand, StartCommand,
};
use sandbox_api::context::{Context, OpenContext, RunCode};
use sandbox_api::files::{
    EditFile, FileInfo, FileLink, FileRead, FileWritten, GlobFiles, GrepFiles, LinkFile, MakeDir, MoveFile,
    WriteFiles,
};
use sandbox_api::health::{Health, Ready};
use sandbox_api::mcp::{ApproveMcpServer, RegisterMcpServer};
use sandbox_api::network::{AllowDenied, DenialAllowed, DenialList};
use sandbox_api::port::{CreateLink, Link, PortFound};
use sandbox_api::project::{
    ChildToken, CreateChildToken, CreateProject, CreateTicket, CreateToken, RevokeSubject, TokenCreated,
    WhoAmI,
};
use sandbox_api::quota::{ChangeProject, ProjectUsage};
use sandbox_api::repository::{RepositoryRan, RunInRepository, WorkspaceRepository};
use sandbox_api::sandbox::{CreateSandbox, Network, ParkSandbox, SandboxCreated, TouchSandbox};
use sandbox_api::snapshot::{
    CheckSnapshots, ForkSandbox, MakeSnapshot, RestoreSnapshot, SandboxForked, Snapshot, SnapshotChanges,
    SnapshotList, SnapshotMade, SnapshotRestored, SnapshotsChecked,
};
use sandbox_api::terminal::{OpenTerminal, ResizeTerminal};
use sandbox_api::tool::ToolAnswer;
use sandbox_api::{Done, ErrorBody};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value, json};
use utoipa::ToSchema;

use super::operations::operations;

/// Example lines of a command's stream.
const STREAM: &str = r#"{"stream":"start","commandId":"cmd_0123456789abcdefghijkl","startedAt":"2026-01-01T12:00:00Z","timeoutMs":30000}
{"stream":"stdout","seq":1,"data":"hello\n"}
{"stream":"stderr","seq":2,"data":"\ufffd","dataBase64":"/w=="}
{"stream":"gap","droppedBytes":1234,"nextSeq":9}
{"stream":"heartbeat"}
{"stream":"exit","exitCode":0,"signal":null,"reason":"exited","durationMs":12,"stdoutBytes":6,"stderrBytes":1,"droppedBytes":0}
"#;

/// Example lines of a run's stream.
const RUN: &str = r#"{"stream":"start","runId":"cmd_0123456789abcdefghijkl","run":1,"startedAt":"2026-01-01T12:00:00Z","timeoutMs":30000}
{"stream":"stdout","seq":1,"data":"hello\n"}
{"stream":"display","text":"<Figure size 640x480 with 1 Axes>","png":"iVBORw0KGgo="}
{"stream":"result","text":"2"}
{"stream":"error","name":"ZeroDivisionError","value":"division by zero","traceback":"Traceback (most recent call last):\n"}
{"stream":"heartbeat"}
{"stream":"end","status":"ok","durationMs":12,"droppedBytes":0,"restarted":false,"stateLost":false}
"#;

/// Example lines of a watch.
const CHANGES: &str = r#"{"event":"ready"}
{"event":"created","path":"src/new.rs"}
{"event":"moved","path":"src/main.rs","from":"src/new.rs"}
{"event":"heartbeat"}
"#;

/// Example lines of a stream of denials.
const DENIALS: &str = r#"{"event":"denied","id":"den_0123456789abcdefghijkl","host":"example.org","port":443,"count":1,"lastAt":"2026-01-01T12:00:00Z","reason":"hostNotAllowed","allowable":true}
{"event":"ready","at":"2026-01-01T12:00:05Z"}
{"event":"heartbeat"}
"#;

fn snapshot() -> Value {
    json!({
        "snapshotId": "snap_0123456789abcdefghijkl", "sandboxId": "sbx_0123456789abcdefghijkl",
        "sessionKey": "chat:1", "name": "before the refactoring", "createdAt": "2026-01-01T12:00:00Z",
        "expiresAt": "2026-01-02T12:00:00Z", "parentId": null, "sizeBytes": 169_000_000, "newBytes": 41_000_000,
        "files": 21_583, "state": "complete",
    })
}

fn snapshots_checked() -> Value {
    json!({
        "ok": false, "incomplete": false, "packs": 12, "chunks": 3456, "bytes": 41_000_000, "faultyPacks": 1,
        "faults": [{
            "pack": "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", "problem": "damaged",
            "message": "its bytes are not those that its name says", "damagedChunks": 1, "quarantined": true,
            "intactChunks": 287,
        }],
        "snapshots": 4, "damagedSnapshots": 1, "damaged": [damaged()],
        "unverifiedSnapshots": 0,
    })
}

fn damaged() -> Value {
    let mut damaged = snapshot();
    damaged["state"] = "damaged".into();
    damaged
}

fn snapshot_made() -> Value {
    let mut made = snapshot();
    made["tornFiles"] = 0.into();
    made["paused"] = false.into();
    made
}

fn workspace_repository() -> Value {
    json!({
        "repository": "https://github.com/tokio-rs/axum.git",
        "resolvedRef": "0123456789abcdef0123456789abcdef01234567", "resolvedVersion": null, "branch": "main",
        "tags": [], "cached": true, "warnings": [],
    })
}

fn repository_ran() -> Value {
    json!({
        "sandboxId": "sbx_0123456789abcdefghijkl", "repository": "https://github.com/tokio-rs/axum.git",
        "resolvedRef": "0123456789abcdef0123456789abcdef01234567", "resolvedVersion": null, "branch": "main",
        "tags": [], "cached": true, "warnings": [], "exitCode": 0, "reason": "exited", "durationMs": 12,
        "stdout": "Fix a link\naxum\n", "stderr": "", "truncated": false, "outputPath": null,
    })
}

/// Name of a schema, and an example.
type Example = (String, Value);

fn all() -> Result<Vec<Example>, Error> {
    Ok(vec![
        example::<Health>(json!({ "ok": true, "engine": "docker", "version": "27.5.1" }))?,
        example::<Ready>(json!({ "ready": true, "diskShort": false }))?,
        example::<CreateSandbox>(json!({
            "sessionKey": "chat:1", "idleTtlMs": 900_000, "resources": { "vcpus": 1, "memoryMb": 512 },
            "packages": ["numpy==2.*", "polars"],
        }))?,
        example::<SandboxCreated>(json!({
            "sandboxId": "sbx_0123456789abcdefghijkl", "created": true, "state": "running", "woken": false,
            "imageId": "sha256:8f2c0d5e9a7b41c63d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e",
            "repository": workspace_repository(),
        }))?,
        example::<MakeSnapshot>(json!({ "name": "before the refactoring", "ttlMs": 86_400_000 }))?,
        example::<SnapshotMade>(snapshot_made())?,
        example::<Snapshot>(snapshot())?,
        example::<SnapshotList>(json!({ "snapshots": [snapshot()], "nextCursor": null }))?,
        example::<SnapshotChanges>(json!({
            "changes": [
                { "path": "workspace/a.txt", "change": "modified" },
                { "path": "workspace/new.txt", "change": "renamed", "from": "workspace/old.txt" },
            ],
            "nextCursor": null,
        }))?,
        example::<RestoreSnapshot>(json!({ "snapshotId": "snap_0123456789abcdefghijkl" }))?,
        example::<SnapshotRestored>(json!({
            "checkpointId": "snap_9876543210abcdefghijkl", "written": 12, "removed": 3,
        }))?,
        example::<CheckSnapshots>(json!({ "readOnly": true }))?,
        example::<SnapshotsChecked>(snapshots_checked())?,
        example::<ForkSandbox>(json!({ "sessionKeys": ["chat:2", "chat:3"] }))?,
        example::<SandboxForked>(json!({ "sandboxes": [{
            "sandboxId": "sbx_0123456789abcdefghijkl", "created": true, "state": "running", "woken": false,
        }] }))?,
        example::<TouchSandbox>(json!({ "idleTtlMs": 900_000 }))?,
        example::<ParkSandbox>(json!({ "force": true }))?,
        example::<Done>(json!({ "ok": true }))?,
        example::<StartCommand>(json!({ "script": "echo hello; uname -a", "timeoutMs": 10_000 }))?,
        example::<CommandStarted>(json!({
            "commandId": "cmd_0123456789abcdefghijkl", "timeoutMs": 10_000,
        }))?,
        example::<Command>(json!({
            "commandId": "cmd_0123456789abcdefghijkl", "cmd": "bash", "args": ["-c", "echo hello; uname -a"],
            "cwd": "/vercel/sandbox/workspace", "state": "ended", "startedAt": "2026-01-01T12:00:00Z",
            "endedAt": "2026-01-01T12:00:00.012Z", "exitCode": 0, "signal": null, "reason": "exited",
            "durationMs": 12, "stdoutBytes": 6, "stderrBytes": 0, "droppedBytes": 0, "timeoutMs": 10_000,
            "detached": false,
        }))?,
        run_command()?,
        example::<CommandRan>(json!({
            "commandId": "cmd_0123456789abcdefghijkl", "exitCode": 0, "signal": null, "reason": "exited",
            "durationMs": 12, "stdout": "hello\n", "stderr": "", "truncated": false, "droppedBytes": 0,
            "outputPath": null, "outputComplete": true,
        }))?,
        example::<RunBatch>(json!({
            "commands": [{ "script": "npm install" }, { "script": "npm test", "timeoutMs": 120_000 }],
        }))?,
        example::<CommandEnded>(json!({
            "exitCode": 0, "reason": "exited", "signal": null, "durationMs": 12,
        }))?,
        example::<KillCommand>(json!({ "signal": "SIGINT" }))?,
        example::<CommandKilled>(json!({ "ok": true }))?,
        example::<WriteFiles>(json!({ "files": [{ "path": "hello.txt", "contentBase64": "aGVsbG8K" }] }))?,
        example::<FileRead>(json!({ "found": true, "contentBase64": "aGVsbG8K" }))?,
        example::<FileInfo>(json!({
            "name": "hello.txt", "path": "hello.txt", "type": "file", "size": 6, "mode": 420,
            "modifiedAt": "2026-01-01T12:00:00Z", "etag": "c-6-18b1a2c3d4e5f607",
        }))?,
        example::<FileWritten>(
            json!({ "ok": true, "created": true, "size": 6, "etag": "c-6-18b1a2c3d4e5f607" }),
        )?,
        example::<LinkFile>(json!({ "path": "out/report.pdf", "ttlMs": 600_000 }))?,
        example::<FileLink>(json!({
            "url": "http://downloads.localhost:8081/download/AZnAq5Yq0example/report.pdf",
            "expiresAt": "2026-01-01T12:10:00Z", "size": 48_213,
        }))?,
        example::<MakeDir>(json!({ "path": "src/deep" }))?,
        example::<MoveFile>(json!({ "from": "hello.txt", "to": "src/hello.txt", "overwrite": true }))?,
        example::<EditFile>(json!({
            "path": "src/hello.txt", "edits": [{ "oldText": "hello", "newText": "hello, world" }],
        }))?,
        example::<GrepFiles>(json!({ "query": "hello", "include": "**/*.txt" }))?,
        example::<GlobFiles>(json!({ "pattern": "**/*.txt", "exclude": ["node_modules"] }))?,
        example::<OpenContext>(json!({ "language": "bash" }))?,
        example::<ToolAnswer>(json!({ "result": { "celsius": 21.5 } }))?,
        example::<RunCode>(json!({ "code": "1 + 1", "timeoutMs": 10_000 }))?,
        example::<Context>(json!({
            "contextId": "ctx_0123456789abcdefghijkl", "language": "python", "cwd": "/vercel/sandbox/workspace",
            "startedAt": "2026-01-01T12:00:00Z", "running": false, "runs": 2, "tools": ["get_weather"], "toolCalls": 3,
        }))?,
        example::<OpenTerminal>(json!({ "cols": 100, "rows": 30 }))?,
        example::<CreateLink>(json!({ "ttlMs": 3_600_000 }))?,
        example::<Link>(json!({
            "linkId": "lnk_0123456789abcdefghijkl", "port": 3000, "style": "host",
            "url": "http://3000-abcdefghijklmnopqrstuvwxyz234567.localhost:8081/",
            "createdAt": "2026-01-01T12:00:00Z", "expiresAt": null,
        }))?,
        example::<PortFound>(json!({
            "found": true, "hostPort": 8081, "url": "http://3000-abcdefghijklmnopqrstuvwxyz234567.localhost:8081/",
        }))?,
        example::<Network>(
            json!({ "mode": "allowlist", "allow": ["registry.npmjs.org", "*.example.com:443"] }),
        )?,
        example::<DenialList>(json!({ "denials": [{
            "id": "den_0123456789abcdefghijkl", "allowable": true,
            "host": "example.org", "port": 443, "count": 2, "lastAt": "2026-01-01T12:00:00Z", "reason": "hostNotAllowed",
        }] }))?,
        example::<RegisterMcpServer>(json!({
            "name": "files", "cmd": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
        }))?,
        example::<ApproveMcpServer>(json!({ "toolsHash": "0".repeat(64) }))?,
        example::<RunInRepository>(json!({
            "repository": "tokio-rs/axum", "ref": "main", "command": "git log -1 --format=%s; ls",
        }))?,
        example::<RepositoryRan>(repository_ran())?,
        example::<WorkspaceRepository>(workspace_repository())?,
        example::<CreateProject>(json!({ "name": "research" }))?,
        example::<ChangeProject>(json!({
            "quotas": { "runningSandboxes": 4, "diskMb": 20_480, "networkModes": ["allowlist", "none"] },
        }))?,
        example::<ProjectUsage>(json!({
            "project": "research",
            "now": [{ "quota": "runningSandboxes", "used": 1, "limit": 4 }],
            "days": [{
                "day": "2026-01-01", "runningMs": 3_600_000, "peakRunning": 2, "commands": 120,
                "egressBytes": 52_428_800, "snapshotBytes": 10_485_760,
            }],
        }))?,
        example::<CreateToken>(json!({
            "name": "Ann's laptop", "subject": "ann@example.com", "scopes": ["use"], "ttlMs": 2_592_000_000_u64,
        }))?,
        example::<TokenCreated>(json!({
            "token": format!("sbt_0123456789abcdefghijkl_{}", "0".repeat(64)),
            "tokenId": "tok_0123456789abcdefghijkl", "project": "research", "name": "Ann's laptop",
            "subject": "ann@example.com", "scopes": ["use"], "createdAt": "2026-01-01T12:00:00Z",
            "expiresAt": "2026-01-31T12:00:00Z",
        }))?,
        example::<CreateChildToken>(json!({
            "subject": "ann@example.com", "scopes": ["use"], "ttlMs": 3_600_000,
        }))?,
        example::<ChildToken>(json!({
            "token": format!("sbc_{}", "A".repeat(200)), "project": "research", "subject": "ann@example.com",
            "scopes": ["use"], "expiresAt": "2026-01-01T13:00:00Z",
        }))?,
        example::<CreateTicket>(json!({
            "path": "/v1/sandboxes/sbx_0123456789abcdef/terminals/term_0123456789abcdef/attach",
        }))?,
        example::<RevokeSubject>(json!({ "subject": "ann@example.com" }))?,
        example::<WhoAmI>(json!({
            "project": "research", "subject": "ann@example.com", "scopes": ["use"],
            "token": "tok_0123456789abcdefghijkl", "operator": false,
        }))?,
        example::<AllowDenied>(json!({ "scope": "sandbox" }))?,
        example::<DenialAllowed>(json!({
            "host": "example.org", "port": 443, "scope": "sandbox", "rule": "example.org",
        }))?,
        example::<ResizeTerminal>(json!({ "cols": 132, "rows": 43 }))?,
        example::<ErrorBody>(json!({
            "error": "`sessionKey` is missing", "code": "invalid_request", "details": { "field": "sessionKey" },
            "requestId": "req_0123456789abcdef0123456789abcdef",
        }))?,
    ])
}

/// Not decoded, because only the daemon decodes this type.
fn run_command() -> Result<Example, Error> {
    let command = serde_json::from_value(json!({ "script": "npm test", "timeoutMs": 120_000 }))?;
    let output = serde_json::from_value(json!({ "keep": "tail", "maxTokens": 1000 }))?;
    Ok((RunCommand::name().into_owned(), serde_json::to_value(RunCommand { command, output })?))
}

fn example<T: ToSchema + DeserializeOwned + Serialize>(json: Value) -> Result<Example, Error> {
    Ok((T::name().into_owned(), serde_json::to_value(serde_json::from_value::<T>(json)?)?))
}

/// Writes the examples into the document.
pub(super) fn apply(document: &mut Value) {
    for (name, example) in all().into_iter().flatten() {
        if let Some(schema) = document["components"]["schemas"].get_mut(name) {
            schema["examples"] = json!([example]);
        }
    }
    for operation in operations(document) {
        let lines = match operation["operationId"].as_str() {
            Some("runCode") => RUN,
            Some("watchFiles") => CHANGES,
            Some("listDenials") => DENIALS,
            _ => STREAM,
        };
        // Indexing would create missing entries.
        let stream = operation.pointer_mut("/responses/200/content/application~1x-ndjson");
        if let Some(stream) = stream {
            stream["example"] = lines.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbox_api::command::Record;
    use sandbox_api::context::RunRecord;
    use sandbox_api::files::WatchRecord;
    use sandbox_api::network::DenialRecord;

    use super::*;
    use crate::api::router;

    #[test]
    fn every_example_is_of_its_type() {
        let document: Value = serde_json::from_slice(&router::document()).unwrap();
        for (name, example) in all().unwrap() {
            assert_eq!(document["components"]["schemas"][&name]["examples"][0], example, "{name}");
        }
        for line in STREAM.lines() {
            serde_json::from_str::<Record>(line).unwrap();
        }
        for line in RUN.lines() {
            serde_json::from_str::<RunRecord>(line).unwrap();
        }
        for line in CHANGES.lines() {
            serde_json::from_str::<WatchRecord>(line).unwrap();
        }
        for line in DENIALS.lines() {
            serde_json::from_str::<DenialRecord>(line).unwrap();
        }
    }
}
