//! The profile with the tools of sql-fs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

/// A client of one sandbox.
struct SqlFs {
    client: Mcp,
    id: Value,
}

impl SqlFs {
    /// The result of a call, which is JSON in text.
    async fn call(&self, tool: &str, mut arguments: Value) -> Value {
        if !matches!(tool, "sandbox_create" | "sandbox_list") {
            arguments["id"] = self.id.clone();
        }
        let called = self.client.call(tool, arguments).await;
        assert!(!called.is_error && called.structured.is_null(), "{called:?}");
        serde_json::from_str(&called.text).unwrap()
    }

    async fn create(client: Mcp, name: &str) -> Self {
        let mut created = Self { client, id: Value::Null };
        let answer = created.call("sandbox_create", json!({ "name": name, "python": true })).await;
        created.id = answer["id"].clone();
        let expected = json!({
            "id": created.id, "name": name, "python": true, "javascript": false, "network": false,
        });
        assert_eq!(answer, expected);
        created
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_fs_has_sandboxes_scripts_and_files() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).with_profile("sql-fs");
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 10);
    let own = SqlFs::create(client.clone(), "mine").await;
    let other = SqlFs::create(client.with("x-sandbox-user", "ann"), "hers").await;
    let listed = other.call("sandbox_list", json!({})).await["sandboxes"].clone();
    let [only] = listed.as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&only["id"], &only["name"], &only["owner"]), (&other.id, &json!("hers"), &json!("ann")));
    scripts(&own).await;
    files(&own).await;
    bulk(&own).await;
    // The sandbox of another user.
    let stranger = SqlFs { client: own.client.clone(), id: other.id.clone() };
    let unknown = json!({ "ok": false, "error": "sandbox not found" });
    assert_eq!(stranger.call("sandbox_delete", json!({})).await, unknown);
    assert_eq!(own.call("sandbox_delete", json!({})).await, json!({ "ok": true }));
    assert_eq!(own.call("file_read", json!({ "path": "a" })).await["error"], "sandbox not found");
    let gone = own.call("bash_exec", json!({ "script": "id" })).await;
    assert_eq!(gone, json!({ "stdout": "", "stderr": "sandbox not found", "exitCode": 1 }));
    daemon.stop().await;
}

async fn scripts(own: &SqlFs) {
    let ran = own.call("bash_exec", json!({ "script": "mkdir -p sub; cd sub; K=1; echo o; exit 3" })).await;
    assert_eq!(
        (&ran["stdout"], &ran["exitCode"], &ran["timedOut"]),
        (&json!("o\n"), &json!(3), &json!(false))
    );
    assert!(ran["durationMs"].is_u64() && ran["exitSignal"].is_null(), "{ran}");
    // The directory is kept, a variable is not.
    let ran = own.call("bash_exec", json!({ "script": "echo ${PWD##*/}$K; cd ..", "debug": true })).await;
    assert_eq!(ran["stdout"], "sub\n");
    assert!(ran["stderr"].as_str().unwrap().contains("+ echo sub"), "{ran}");
    let late = own.call("bash_exec", json!({ "script": "echo a; sleep 60", "timeout": 500 })).await;
    assert_eq!(
        (&late["stdout"], &late["exitCode"], &late["timedOut"]),
        (&json!("a\n"), &json!(-1), &json!(true))
    );
    let read_only = own.call("bash_exec", json!({ "script": "touch new", "readOnly": true })).await;
    assert_ne!(read_only["exitCode"], 0, "{read_only}");

    let sleepers: Vec<_> = (0..8).map(|n| json!({ "id": n.to_string(), "script": "sleep 1; pwd" })).collect();
    let begin = std::time::Instant::now();
    let batch = own.call("bash_exec_batch", json!({ "scripts": sleepers, "readOnly": true })).await;
    assert!(begin.elapsed().as_secs_f32() < 7.0, "the scripts ran one after another");
    let results = batch["results"].as_array().unwrap();
    assert_eq!(results.len(), sleepers.len());
    let is_right =
        |(result, script): (&Value, &Value)| result["id"] == script["id"] && result["exitCode"] == 0;
    assert!(results.iter().zip(&sleepers).all(is_right), "{batch}");
    let scripts = json!([
        { "id": "a", "script": "echo 1 >f; cd sub" }, { "id": "b", "script": "cat ../f; sleep 60" }, { "id": "c", "script": "id" },
    ]);
    let batch = own.call("bash_exec_batch", json!({ "scripts": scripts, "timeout": 2000 })).await;
    let results = &batch["results"];
    assert_eq!((&results[0]["exitCode"], &results[1]["stdout"]), (&json!(0), &json!("1\n")), "{batch}");
    assert_eq!(
        (&results[1]["error"], &results[2]["error"], &results[2]["exitCode"]),
        (&json!("timeout"), &json!("timeout"), &json!(-1))
    );
    let none = own.call("bash_exec_batch", json!({ "scripts": [] })).await;
    assert_eq!((&none["ok"], &none["code"]), (&json!(false), &json!("INVALID_INPUT")));
}

async fn files(own: &SqlFs) {
    let written = own.call("file_write", json!({ "path": "d/a.txt", "content": "l1\nl2\nl3\n" })).await;
    assert_eq!(written, json!({ "ok": true, "path": "d/a.txt", "size": 9 }));
    let read = own.call("file_read", json!({ "path": "d/a.txt", "offset": 2, "limit": 2 })).await;
    let expected = json!({
        "ok": true, "path": "d/a.txt", "content": "l2\nl3", "size": 9, "totalLines": 4, "firstLine": 2, "truncated": false,
    });
    assert_eq!(read, expected);
    let line = "€".repeat(40_000);
    own.call("file_write", json!({ "path": "long", "content": line })).await;
    let first = own.call("file_read", json!({ "path": "long" })).await;
    let rest = own.call("file_read", json!({ "path": "long", "byteOffset": first["nextByteOffset"] })).await;
    assert_eq!((&first["truncated"], &rest["truncated"]), (&json!(true), &json!(false)));
    assert!(format!("{}{}", first["content"].as_str().unwrap(), rest["content"].as_str().unwrap()) == line);

    let edit = |old: &str, all: bool| json!({ "path": "d/a.txt", "oldString": old, "newString": "L", "replaceAll": all });
    let twice = own.call("file_edit", edit("l", false)).await;
    assert_eq!((&twice["code"], &twice["occurrences"]), (&json!("EDIT_NOT_UNIQUE"), &json!(3)), "{twice}");
    assert_eq!(own.call("file_edit", edit("none", false)).await["code"], "EDIT_NO_MATCH");
    let edited = own.call("file_edit", edit("l", true)).await;
    assert_eq!(edited, json!({ "ok": true, "path": "d/a.txt", "replacements": 3, "size": 9 }));

    own.call("bash_exec", json!({ "script": "printf '\\377' >/vercel/sandbox/workspace/bytes" })).await;
    for (path, code) in [("d", "EISDIR"), ("missing", "ENOENT"), ("bytes", "NOT_TEXT")] {
        let failed = own.call("file_read", json!({ "path": path })).await;
        assert_eq!((&failed["ok"], &failed["code"]), (&json!(false), &json!(code)), "{failed}");
    }
    assert_eq!(own.call("file_write", json!({ "path": "d", "content": "" })).await["code"], "EISDIR");
}

async fn bulk(own: &SqlFs) {
    let base = "/vercel/sandbox/workspace/in";
    let files = json!({ "a.txt": BASE64_STANDARD.encode("a"), "s/b": BASE64_STANDARD.encode([0xff]) });
    let ingested = own.call("fs_ingest", json!({ "basePath": base, "files": files })).await;
    assert_eq!(ingested, json!({ "ok": true, "count": 2 }));
    let exported = own.call("fs_export", json!({ "basePath": base })).await;
    let expected = json!({ "files": { "a.txt": "a", "s/b": "data:application/octet-stream;base64,/w==" } });
    assert_eq!(exported, expected);
    for arguments in [
        json!({ "files": { "../x": "" } }),
        json!({ "files": { "/x": "" } }),
        json!({ "files": { "x": "not base64!" } }),
        json!({ "paths": { "x": "/etc/passwd" } }),
        json!({}),
    ] {
        let refused = own.call("fs_ingest", arguments.clone()).await;
        assert_eq!(refused["ok"], false, "{arguments}: {refused}");
    }
    own.call(
        "bash_exec",
        json!({ "script": "head -c 1000000 /dev/zero >/vercel/sandbox/workspace/in/zeros" }),
    )
    .await;
    assert_eq!(own.call("fs_export", json!({ "basePath": base })).await["code"], "EEXPORT_TOO_LARGE");
}
