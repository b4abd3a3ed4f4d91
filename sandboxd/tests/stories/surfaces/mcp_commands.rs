//! Commands over MCP: long ones, their progress, and what happens when the client leaves.

use std::time::{Duration, Instant};

use serde_json::json;

use super::mcp_client::{Mcp, messages};
use crate::support::harness::{Daemon, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_result_has_output_exit_code_and_reason() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("results");
    let called = client.call("bash", json!({ "command": "echo out; echo err >&2; exit 3" })).await;
    assert!(!called.is_error, "another exit code is a result");
    assert_eq!(called.text, "out\n[stderr]\nerr\n[exit code 3]");
    let result = called.structured;
    assert_eq!((&result["stdout"], &result["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((&result["exitCode"], &result["reason"]), (&3.into(), &"exited".into()));
    let slow = client.result("bash", json!({ "command": "sleep 60", "timeoutMs": 1000 })).await;
    assert_eq!((&slow["exitCode"], &slow["reason"]), (&124.into(), &"timeout".into()));
    let placed = json!({ "command": "echo $PWD $A", "cwd": ".", "env": { "A": "b" } });
    assert_eq!(client.result("bash", placed).await["stdout"], "/vercel/sandbox/workspace b\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stages_of_a_pipeline_are_in_the_result() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("stages");
    let command = json!({ "command": "cd /; (echo a; exit 3) | cat", "capture": "stages" });
    let called = client.call("bash", command).await;
    let text = "a\n[stage `(echo a; exit 3)`: exit code 3, 2 bytes:]\na\n[stage `cat`: exit code 0]";
    assert_eq!((called.text.as_str(), called.is_error), (text, false));
    let stages = json!([
        { "command": "(echo a; exit 3)", "exitCode": 3, "stdout": "a\n", "stdoutBytes": 2, "truncated": false },
        { "command": "cat", "exitCode": 0, "truncated": false },
    ]);
    assert_eq!(called.structured["stages"], stages);
    let none = client.result("bash", json!({ "command": "true", "capture": "stages" })).await;
    assert_eq!(none.get("stages"), None);
    let refused = client.call("bash", json!({ "command": "a | b &", "capture": "stages" })).await;
    assert!(refused.is_error && refused.text.contains("`capture`"), "{}", refused.text);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_be_limited_read_only_and_traced() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("limited");
    let looping = json!({ "command": "while true; do x=1; done", "limits": "strict" });
    let called = client.call("bash", looping).await;
    assert_eq!(called.structured["limitExceeded"], json!({ "limit": "loopIterations", "value": 100 }));
    assert!(called.text.contains("the limit of 100 loopIterations was exceeded"), "{}", called.text);
    // The profile has a time limit of its own.
    let slow = client.result("bash", json!({ "command": "sleep 60", "limits": "strict" })).await;
    assert_eq!((&slow["exitCode"], &slow["reason"]), (&124.into(), &"timeout".into()));
    let called = client.call("bash", json!({ "command": "echo a > file", "readOnly": true })).await;
    let violation = json!({ "operation": "create", "path": "file" });
    assert_eq!(called.structured["readOnlyViolation"], violation, "{}", called.text);
    assert!(called.text.contains("read-only for this command: `create` of file"), "{}", called.text);
    let called = client.call("bash", json!({ "command": "a=1\necho $a", "debug": true })).await;
    assert_eq!(called.text, "1\n[trace]\n+ a=1\n+ echo 1\n");
    assert_eq!(
        (&called.structured["trace"], &called.structured["stderr"]),
        (&"+ a=1\n+ echo 1\n".into(), &"".into())
    );
    let plain = client.result("bash", json!({ "command": "true" })).await;
    for field in ["limitExceeded", "readOnlyViolation", "trace"] {
        assert_eq!(plain.get(field), None);
    }
    let refused = client.call("bash", json!({ "command": "true", "limits": "none" })).await;
    assert!(refused.is_error && refused.text.contains("`limits`"), "{}", refused.text);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_command_returns_and_continues() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("long");
    let command = "echo first; until [ -e go ]; do sleep 0.05; done; echo second";
    let result = client.result("bash", json!({ "command": command, "waitMs": 500 })).await;
    assert_eq!((&result["running"], &result["stdout"]), (&true.into(), &"first\n".into()), "{result}");
    let id = &result["commandId"];
    let listed = client.result("bash_list", json!({})).await;
    assert_eq!((&listed["commands"][0]["commandId"], &listed["commands"][0]["running"]), (id, &true.into()));
    let nothing = client.result("bash_output", json!({ "commandId": id })).await;
    assert_eq!((&nothing["running"], &nothing["stdout"]), (&true.into(), &"".into()));
    client.output("touch go").await;
    let rest = client.result("bash_output", json!({ "commandId": id, "waitMs": 20_000 })).await;
    assert_eq!((&rest["exitCode"], &rest["stdout"]), (&0.into(), &"second\n".into()), "{rest}");
    let again = client.result("bash_output", json!({ "commandId": id, "fromStart": true })).await;
    assert_eq!((&again["exitCode"], &again["stdout"]), (&0.into(), &"first\nsecond\n".into()));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_command_runs_until_it_is_ended() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("background");
    let began = Instant::now();
    let server = json!({ "command": "exec sleep 60", "background": true, "timeoutMs": 60_000 });
    let result = client.result("bash", server).await;
    assert!(result["running"] == true && began.elapsed() < Duration::from_secs(20), "{result}");
    let id = &result["commandId"];
    let killed = client.result("bash_kill", json!({ "commandId": id })).await;
    assert_eq!(killed["alreadyEnded"], false);
    let ended = client.result("bash_output", json!({ "commandId": id })).await;
    assert_eq!((&ended["running"], &ended["reason"]), (&false.into(), &"killed".into()), "{ended}");
    assert_eq!(client.result("bash_kill", json!({ "commandId": id })).await["alreadyEnded"], true);
    let unknown = client.failure("bash_kill", json!({ "commandId": "cmd_0123456789abcdef" })).await;
    assert!(unknown.contains("no such command"), "{unknown}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_has_the_last_line_of_output() {
    let daemon = Daemon::start().await;
    for client in [Mcp::of(&daemon), Mcp::of(&daemon).legacy().await] {
        let client = client.in_session("progress");
        let command =
            json!({ "command": "for i in 1 2 3; do printf '\\e[32mstep %s\\e[0m\\n' $i; sleep 1.2; done" });
        let called = client.call_with_progress("bash", command).await;
        assert_eq!(called.structured["exitCode"], 0);
        let params = called.notifications.iter().map(|notification| &notification["params"]);
        let progress: Vec<f64> = params.clone().map(|params| params["progress"].as_f64().unwrap()).collect();
        assert!(progress.len() >= 2 && progress.is_sorted_by(|a, b| a < b), "{:?}", called.notifications);
        let lines: Vec<_> = params.filter_map(|params| params["message"].as_str()).collect();
        assert!(lines.contains(&"step 2") && lines.iter().all(|line| line.starts_with("step ")), "{lines:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_that_leaves_ends_its_command() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("leaving");
    client.output("true").await;
    let endless = json!({ "name": "bash", "arguments": { "command": "touch began; exec sleep 100" }, "_meta": { "progressToken": "p" } });
    let call = tokio::spawn(client.request("tools/call", endless).send());
    until("the command runs", || async { client.output("ls").await.contains("began") }).await;
    call.abort();
    until("the command has ended", || async { !client.output("ps -eo args").await.contains("sleep 100") })
        .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_legacy_client_ends_by_its_notification_only() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).legacy().await.in_session("cancelling");
    client.output("true").await;
    let endless = |command: &str| json!({ "name": "bash", "arguments": { "command": command } });
    let request = client.request_with_id(1_000_000, "tools/call", endless("touch one; exec sleep 101"));
    let call = tokio::spawn(request.send());
    until("the command runs", || async { client.output("ls").await.contains("one") }).await;
    call.abort();
    let _ = call.await;
    // It is still there after another call, which the server handles in order.
    assert!(client.output("sleep 0.5; ps -eo args").await.contains("sleep 101"));
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1_000_000 } });
    assert_eq!(client.post(&cancelled).send().await.unwrap().status(), 202);
    until("the command has ended", || async { !client.output("ps -eo args").await.contains("sleep 101") })
        .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_cut_in_the_middle() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("flood");
    let response = client.request(
        "tools/call",
        json!({ "name": "bash", "arguments": { "command": "seq 2000000; head -c 10000000 /dev/zero >&2" } }),
    );
    let (answer, _) = messages(response.send().await.unwrap()).await;
    let bytes = answer.to_string().len();
    assert!(bytes < 700 * 1024, "{bytes} bytes");
    let result = &answer["result"]["structuredContent"];
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n2000000\n"), "{}", &stdout[..100]);
    assert!(stdout.contains("not shown") && result["truncated"] == true);
    assert!(stdout.chars().count() < 21_000);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_chooses_what_it_gets_of_a_long_output() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("part");
    let part = |output| json!({ "command": "seq 1000; seq 1000 >&2", "output": output });
    let head = client.result("bash", part(json!({ "keep": "head", "maxChars": 10 }))).await;
    let text = |result: &serde_json::Value, name: &str| result[name].as_str().unwrap().to_owned();
    for name in ["stdout", "stderr"] {
        let shown = text(&head, name);
        assert!(shown.starts_with("1\n2\n3\n4\n5\n") && !shown.contains("1000"), "{shown}");
    }
    let tail = client.result("bash", part(json!({ "keep": "tail", "maxTokens": 2 }))).await;
    let shown = text(&tail, "stdout");
    assert!(shown.ends_with("]\n99\n1000\n"), "{shown}");
    let again = json!({
        "commandId": head["commandId"], "fromStart": true, "output": { "keep": "tail", "maxChars": 5 }
    });
    assert!(text(&client.result("bash_output", again).await, "stdout").ends_with("1000\n"));
    let wrong = client.failure("bash", part(json!({ "maxChars": 0 }))).await;
    assert!(wrong.contains("output.maxChars") && wrong.contains("from 1 to 20000"), "{wrong}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_is_in_a_file_that_the_tools_can_read() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("output file");
    let short = client.result("bash", json!({ "command": "seq 100" })).await;
    assert_eq!((&short["outputPath"], &short["outputComplete"]), (&json!(null), &true.into()), "{short}");
    let long = client.result("bash", json!({ "command": "seq 100000" })).await;
    let path = long["outputPath"].as_str().unwrap();
    assert_eq!((&long["truncated"], &long["outputComplete"]), (&true.into(), &true.into()));
    assert!(long["stdout"].as_str().unwrap().contains(&format!("not shown: see {path}]")), "{long}");
    let middle = json!({ "path": path, "offset": 50_000, "limit": 1 });
    assert_eq!(client.result("read", middle).await["content"], "50000\n");
    let found = client.result("search", json!({ "text": "^5000.$", "regex": true, "path": path })).await;
    assert_eq!((&found["matches"][0]["path"], &found["matches"][9]["line"]), (&path.into(), &50_009.into()));
    let written = client.failure("write", json!({ "path": path, "content": "x" })).await;
    assert!(written.contains("out of the workspace"), "{written}");
    daemon.stop().await;
}
