//! Tools over MCP: definitions, files, and the sandbox that a call is for.

use sandbox_api::sandbox::ListSandboxes;
use serde_json::json;

use super::mcp_client::{LEGACY, MODERN, Mcp};
use crate::support::harness::Daemon;
use crate::support::visitor::visit;

#[tokio::test(flavor = "multi_thread")]
async fn both_revisions_offer_the_same_tools() {
    let daemon = Daemon::start().await;
    let modern = Mcp::of(&daemon);
    let found = modern.ask("server/discover", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&MODERN.into()) && versions.contains(&LEGACY.into()), "{found}");
    let tools = modern.ask("tools/list", json!({})).await["result"].clone();
    assert!(tools["ttlMs"].is_number() && tools["cacheScope"].is_string(), "{tools}");
    let legacy = modern.legacy().await;
    let of_legacy = legacy.ask("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(of_legacy, tools["tools"]);
    for tool in tools["tools"].as_array().unwrap() {
        assert!(tool["title"].is_string() && tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
        // A result of `read` may be an image.
        let schema = &tool["outputSchema"];
        assert!(schema["type"] == "object" || (tool["name"] == "read" && schema.is_null()), "{tool}");
    }
    let unknown = modern.ask("tools/call", json!({ "name": "Bash", "arguments": {} })).await;
    assert_eq!(unknown["error"]["code"], -32602);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_edited_read_and_found() {
    let daemon = Daemon::start().await;
    for client in [Mcp::of(&daemon), Mcp::of(&daemon).legacy().await] {
        let client = client.in_session("files");
        let written = client.result("write", json!({ "path": "src/a.txt", "content": "one\ntwo\n" })).await;
        assert_eq!(written["bytes"], 8);
        let edit = json!({ "path": "src/a.txt", "edits": [{ "oldText": "two", "newText": "drei" }] });
        let edited = client.result("edit", edit.clone()).await;
        assert!(edited["diff"].as_str().unwrap().contains("-two\n+drei\n"), "{edited}");
        assert_eq!(edited["firstChangedLine"], 2);
        assert!(client.failure("edit", edit).await.contains("0"), "the text is gone");
        let read = client.result("read", json!({ "path": "src/a.txt", "offset": 2 })).await;
        assert_eq!(read, json!({ "content": "drei\n", "firstLine": 2, "fileBytes": 9 }));
        let found = client.result("search", json!({ "text": "DREI", "ignoreCase": true })).await;
        assert_eq!(found["matches"], json!([{ "path": "src/a.txt", "line": 2, "text": "drei" }]));
        let named = client.result("search", json!({ "files": "**/*.txt" })).await;
        assert_eq!(named["matches"], json!([{ "path": "src/a.txt" }]));
    }
    let client = Mcp::of(&daemon).in_session("files");
    assert!(client.failure("read", json!({ "path": "nope" })).await.contains("nope"));
    assert!(client.failure("read", json!({ "path": "src/a.txt", "offset": 9 })).await.contains("2 lines"));
    assert!(client.failure("read", json!({ "path": "/etc/shadow" })).await.contains("workspace"));
    client.output("head -c 100 /dev/zero >zeros").await;
    assert!(client.failure("read", json!({ "path": "zeros" })).await.contains("not a text file"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_a_call_is_explained_to_the_model() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("mistakes");
    for (arguments, expected) in [
        (json!({}), "`command`"),
        (json!({ "command": 7 }), "`bash`"),
        (json!({ "command": "ls", "timeout": 9 }), "`timeout`"),
        (json!({ "command": "ls", "waitMs": 300_001 }), "`waitMs`"),
        (json!({ "command": "ls", "cwd": "missing" }), "missing"),
        (json!({ "command": "ls", "sandbox": 7 }), "`sandbox`"),
        (json!({ "command": "ls\u{0}" }), "NUL"),
    ] {
        let failure = client.failure("bash", arguments.clone()).await;
        assert!(failure.contains(expected), "{arguments}: {failure}");
    }
    // Null means absent, because some models fill in every field.
    let filled =
        json!({ "command": "echo ok", "cwd": null, "env": null, "timeoutMs": null, "sandbox": null });
    assert_eq!(client.result("bash", filled).await["stdout"], "ok\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_needs_a_handle_or_a_session() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    assert!(client.failure("bash", json!({ "command": "id" })).await.contains("`sandbox_open`"));
    let opened = client.result("sandbox_open", json!({})).await;
    let handle = opened["sandbox"].as_str().unwrap();
    let echo = json!({ "command": "echo here >mark; cat mark", "sandbox": handle });
    assert_eq!(client.result("bash", echo).await["stdout"], "here\n");
    // The handle has precedence over the host's session.
    let other = client.in_session("another");
    let cat = json!({ "command": "cat mark", "sandbox": handle });
    assert_eq!(other.result("bash", cat).await["stdout"], "here\n");
    let missing = other.result("bash", json!({ "command": "cat mark" })).await;
    assert_eq!(missing["exitCode"], 1);
    let info = client.result("sandbox_info", json!({ "sandbox": handle })).await;
    assert_eq!((&info["sandbox"], &info["state"]), (&handle.into(), &"running".into()));
    // A name opens the same sandbox again, and no name opens a new one.
    let named = |name: Option<&str>| {
        let (client, name) = (client.clone(), name.map(str::to_owned));
        async move { client.result("sandbox_open", json!({ "name": name })).await["sandbox"].clone() }
    };
    assert_eq!(named(Some("notes")).await, named(Some("notes")).await);
    assert_ne!(named(None).await, named(None).await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_sandbox_has_expired() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    let handle = client.result("sandbox_open", json!({})).await["sandbox"].as_str().unwrap().to_owned();
    let session = client.in_session("short");
    session.output("touch kept").await;
    for sandbox in daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes {
        daemon.client.delete(&sandbox.sandbox_id).await.unwrap();
    }
    let failure = client.failure("bash", json!({ "command": "id", "sandbox": handle })).await;
    assert!(failure.contains(&handle) && failure.contains("expired"), "{failure}");
    // The host's conversation gets a new, empty one.
    assert_eq!(session.output("ls").await, "");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_names_the_programs_of_the_image() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    let description = async || {
        let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
        tools[0]["description"].as_str().unwrap().to_owned()
    };
    let before = description().await;
    assert!(!before.contains("Available programs"), "{before}");
    let session = client.in_session("programs");
    session.output("true").await;
    let after = description().await;
    let programs = after.strip_prefix(&before).unwrap();
    for part in [" Available programs: bash, git, node 24.", "npm", "python3 3.", "jq", ", and more."] {
        assert!(programs.contains(part), "{programs}");
    }
    assert!(!programs.contains("docker") && !programs.contains("java"), "{programs}");
    // The search is not a command of the model.
    let listed = session.result("bash_list", json!({})).await["commands"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    // What a sandbox adds to its workspace changes nothing.
    session.output("mkdir -p bin && touch bin/java && chmod +x bin/java").await;
    client.in_session("another").output("true").await;
    assert_eq!(description().await, after);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_is_shown_on_the_ports_of_the_sandbox() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("preview");
    let url = client.result("preview_url", json!({ "port": 8000 })).await["url"].clone();
    assert!(url.as_str().unwrap().starts_with("http://8000-"), "{url}");
    assert!(client.failure("preview_url", json!({ "port": 22 })).await.contains("3000, 5173, 8000, 8080"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_offered_for_download() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("download");
    client.result("write", json!({ "path": "out/report.csv", "content": "a,b\n" })).await;
    let arguments = json!({ "path": "out/report.csv" });
    let called = client.call("download_link", arguments).await;
    let url = called.structured["url"].as_str().unwrap();
    assert!(called.text.starts_with(url) && called.text.contains("out/report.csv (4 bytes)"), "{called:?}");
    assert_eq!(called.structured["bytes"], 4);
    assert_eq!(visit(url).await.body, "a,b\n");
    assert!(
        client.failure("download_link", json!({ "path": "nope" })).await.contains("`nope` does not exist")
    );
    assert!(client.failure("download_link", json!({ "path": "out" })).await.contains("out"));
    assert!(client.failure("download_link", json!({ "path": "/etc/passwd" })).await.contains("workspace"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_other_than_requests_are_rejected() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    let without_handshake = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    for message in [json!([1, 2]), json!("text"), json!({}), without_handshake] {
        let status = client.post(&message).send().await.unwrap().status();
        assert!(status.is_client_error(), "{message}: {status}");
    }
    let unknown = client.ask("nope", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    for client in [&client, &client.legacy().await] {
        let unreadable = client.ask("tools/call", json!({ "name": "bash", "arguments": "true" })).await;
        assert_eq!(unreadable["error"]["code"], -32602, "{unreadable}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_the_daemon_and_ends_with_its_client() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("restart").legacy().await;
    client.output("touch kept").await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = client.moved_to(&daemon);
    assert_eq!(client.output("ls").await, "kept\n");
    // Another daemon has not issued the id.
    let stranger = Daemon::start().await;
    let list = client.moved_to(&stranger).request("tools/list", json!({}));
    assert_eq!(list.send().await.unwrap().status(), 404);
    assert!(client.end().await.status().is_success());
    assert_eq!(client.request("tools/list", json!({})).send().await.unwrap().status(), 404);
    stranger.stop().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_open_streams() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).legacy().await;
    let stream = client.listen().await;
    assert!(stream.status().is_success());
    let stop = tokio::time::timeout(std::time::Duration::from_secs(10), daemon.stop());
    stop.await.expect("the daemon waits for a stream of a client");
    drop(stream);
}
