//! `sandboxd mcp --root`: files between the machine of the host and the sandbox.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::stdio::Host;
use crate::support::harness::{DaemonProcess, Home, free_port};

/// Calls a tool. Returns the structured result, or the text of a failure.
async fn call(host: &mut Host, id: u64, tool: &str, arguments: Value) -> Result<Value, String> {
    let answer = host.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    let result = &answer["result"];
    match result["isError"] == true {
        true => Err(result["content"][0]["text"].as_str().unwrap().to_owned()),
        false => Ok(result["structuredContent"].clone()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_below_the_root_only() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(root.join("big"), &content).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    symlink("../secret", root.join("link")).unwrap();
    symlink(outer.path(), root.join("out")).unwrap();

    let mut without = Host::start(&home, port, &[]);
    without.initialize().await;
    let tools = without.ask(1, "tools/list", json!({})).await;
    assert!(!tools.to_string().contains(r#""upload""#), "{tools}");
    let unknown = without
        .ask(2, "tools/call", json!({ "name": "upload", "arguments": { "source": "big", "path": "x" } }))
        .await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

    let mut host = Host::start(&home, port, &["--root", root.to_str().unwrap()]);
    host.initialize().await;
    let tools = host.ask(1, "tools/list", json!({})).await;
    let names: Vec<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.ends_with(&["upload", "download"]), "{names:?}");
    let uploaded = call(&mut host, 2, "upload", json!({ "source": "big", "path": "d/copy" })).await.unwrap();
    assert_eq!(uploaded, json!({ "path": "d/copy", "bytes": content.len(), "created": true }));
    let down = json!({ "path": "d/copy", "destination": "new/dir/back" });
    let downloaded = call(&mut host, 3, "download", down.clone()).await.unwrap();
    assert_eq!(
        downloaded,
        json!({ "destination": "new/dir/back", "bytes": content.len(), "replaced": false })
    );
    assert!(fs::read(root.join("new/dir/back")).unwrap() == content);
    assert_eq!(call(&mut host, 4, "download", down).await.unwrap()["replaced"], true);

    for source in ["../secret", "link", "out/secret", "/etc/passwd", "missing", "new", "a\0b", ""] {
        let failed =
            call(&mut host, 5, "upload", json!({ "source": source, "path": "x" })).await.unwrap_err();
        assert!(failed.contains("`source`"), "{source:?}: {failed}");
    }
    for destination in ["../x", "out/x", "new", "new/", "", "/tmp/x"] {
        let arguments = json!({ "path": "d/copy", "destination": destination });
        let failed = call(&mut host, 6, "download", arguments).await.unwrap_err();
        assert!(failed.contains("`destination`"), "{destination:?}: {failed}");
    }
    // A missing file of the sandbox creates nothing on the host.
    let missing = json!({ "path": "missing", "destination": "empty/x" });
    assert!(call(&mut host, 7, "download", missing).await.unwrap_err().contains("missing"));
    assert!(!root.join("empty").exists() && !outer.path().join("x").exists());
    assert_eq!(fs::read_dir(root.join("new/dir")).unwrap().count(), 1);
    sql_fs_reads_below_the_root(&home, port, &root).await;
    daemon.kill().await;
}

async fn sql_fs_reads_below_the_root(home: &Home, port: u16, root: &std::path::Path) {
    let mut host = Host::start(home, port, &["--profile", "sql-fs", "--root", root.to_str().unwrap()]);
    host.initialize().await;
    let mut ask = async |id, tool: &str, arguments: Value| -> Value {
        let answer = host.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    let id = ask(1, "sandbox_create", json!({})).await["id"].clone();
    let ingested = ask(2, "fs_ingest", json!({ "id": id, "paths": { "p/q": "big" } })).await;
    assert_eq!(ingested, json!({ "ok": true, "count": 1 }));
    let refused = ask(3, "fs_ingest", json!({ "id": id, "paths": { "p": "../secret" } })).await;
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("INVALID_INPUT")));
    let size = ask(4, "bash_exec", json!({ "id": id, "script": "stat -c %s p/q" })).await;
    assert_eq!(size["stdout"], "3000000\n");
}
