//! The profile with the tools of boxsh.

use serde_json::{Value, json};

use super::mcp_client::Mcp;
use super::mcp_images::PICTURES;
use crate::support::harness::Daemon;

#[tokio::test(flavor = "multi_thread")]
async fn boxsh_runs_commands_and_reads_and_changes_files() {
    let daemon = Daemon::start().await;
    let without_session = Mcp::of(&daemon).with_profile("boxsh");
    let client = without_session.in_session("boxsh");
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 9);
    assert!(without_session.failure("bash", json!({ "command": "id" })).await.contains("X-Sandbox-Session"));
    let unknown = Mcp::of(&daemon).with_profile("nope").ask("tools/list", json!({})).await;
    assert!(
        unknown["error"]["message"].as_str().unwrap().contains("default, boxsh, sql-fs, chat"),
        "{unknown}"
    );
    // A tool of another profile.
    let other = client.ask("tools/call", json!({ "name": "sandbox_open", "arguments": {} })).await;
    assert_eq!(other["error"]["code"], -32602, "{other}");

    let ran = client.call("bash", json!({ "command": "echo o; echo e >&2; exit 42" })).await;
    assert!(ran.is_error && ran.structured["duration_ms"].is_u64(), "{ran:?}");
    let expected = json!({ "exit_code": 42, "stdout": "o\n", "stderr": "e\n" });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&ran.structured[field], value);
    }
    let ran = client.call("bash", json!({ "command": "echo a; sleep 60", "timeout": 0.5 })).await;
    assert!(ran.is_error, "{ran:?}");
    assert_eq!(
        (&ran.structured["exit_code"], &ran.structured["stdout"], &ran.structured["stderr"]),
        (&json!(-1), &json!("a\n"), &json!("timeout"))
    );
    let ran = client.result("bash", json!({ "command": "yes | head -c 1000000" })).await;
    assert!(ran["stdout_truncated"] == true && ran.get("stderr_truncated").is_none(), "{ran}");
    for timeout in [json!(-1), json!(-2), json!(0), json!("5")] {
        client.failure("bash", json!({ "command": "true", "timeout": timeout })).await;
    }

    files(&client).await;
    daemon.stop().await;
}

async fn files(client: &Mcp) {
    let written = client.call("write", json!({ "path": "d/a.txt", "content": "one\ntwo\nthree\n" })).await;
    assert_eq!((written.text.as_str(), written.is_error), ("written 14 bytes", false));
    let read = client.result("read", json!({ "path": "d/a.txt", "offset": 2, "limit": 1 })).await;
    let expected = json!({
        "content": "two\n", "encoding": "text", "mime_type": "text/plain", "line_count": 1, "truncated": true,
        "total_lines": 3, "next_offset": 3,
    });
    assert_eq!(read, expected);
    let edits = json!([{ "oldText": "one", "newText": "1" }, { "oldText": "three", "newText": "3" }]);
    let edited = client.call("edit", json!({ "path": "d/a.txt", "edits": edits })).await;
    assert_eq!((edited.text.as_str(), &edited.structured["firstChangedLine"]), ("OK", &json!(1)));
    assert_eq!(client.result("read", json!({ "path": "d/a.txt" })).await["content"], "1\ntwo\n3\n");
    for edits in [json!([]), json!([{ "oldText": "absent", "newText": "" }])] {
        client.failure("edit", json!({ "path": "d/a.txt", "edits": edits })).await;
    }
    client.failure("read", json!({ "path": "d" })).await;

    client.result("write", json!({ "path": "b", "content": "AP8B", "encoding": "base64" })).await;
    let binary = client.result("read", json!({ "path": "b" })).await;
    let expected = json!({ "encoding": "metadata", "mime_type": "application/octet-stream", "size": 3 });
    assert_eq!(binary, expected);
    client.result("bash", json!({ "command": PICTURES })).await;
    let image =
        client.ask("tools/call", json!({ "name": "read", "arguments": { "path": "large.png" } })).await;
    let result = &image["result"];
    assert_eq!(result["content"][0]["text"], "[Image: image/png, 2000x200, resized from 3000x300]");
    assert_eq!(
        (&result["content"][1]["type"], &result["structuredContent"]["was_resized"]),
        (&json!("image"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn boxsh_has_terminals() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).with_profile("boxsh").in_session("terminals");
    let opened = client.result("run_in_terminal", json!({ "command": "bash --norc", "goal": "a sum" })).await;
    let id = opened["id"].clone();
    assert_eq!((&opened["exited"], &opened["exit_code"]), (&json!(false), &Value::Null));
    let mut screen =
        client.result("send_to_terminal", json!({ "id": id, "command": "echo $((6*7))\n" })).await;
    for _ in 0..40 {
        if screen["output"].as_str().unwrap().contains("\n42") {
            break;
        }
        // Waits for new output by itself.
        screen = client.result("get_terminal_output", json!({ "id": id })).await;
    }
    assert!(screen["output"].as_str().unwrap().contains("\n42"), "{screen}");
    let listed = client.result("list_terminals", json!({})).await;
    let session = json!({ "id": id, "command": "bash --norc", "alive": true, "cols": 220, "rows": 50 });
    assert_eq!(listed["sessions"], json!([session]));
    let killed = client.result("kill_terminal", json!({ "id": id })).await;
    assert!(killed["output"].as_str().unwrap().contains("42"), "{killed}");
    let listed = client.call("list_terminals", json!({})).await;
    assert_eq!((listed.text.as_str(), &listed.structured["sessions"]), ("[]", &json!([])));
    client.failure("get_terminal_output", json!({ "id": id })).await;
    daemon.stop().await;
}
