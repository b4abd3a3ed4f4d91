//! Terminals over MCP, used as a model would.

use serde_json::{Value, json};

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

fn screen(result: &Value) -> &str {
    result["screen"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_in_a_repl_keeps_its_state() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("repl");
    let opened = client.result("terminal_open", json!({ "command": "python3 -q", "waitMs": 20_000 })).await;
    assert!(opened["running"] == true && screen(&opened).contains(">>>"), "{opened}");
    let id = &opened["terminalId"];
    let send = |text: &'static str| {
        let line = json!({ "terminalId": id, "text": text, "keys": ["Enter"], "waitMs": 20_000 });
        client.result("terminal_send", line)
    };
    send("x = 6 * 7").await;
    let shown = send("print('x is', x)").await;
    assert!(screen(&shown).contains("\nx is 42\n"), "{shown}");
    let listed = client.result("terminal_list", json!({})).await;
    assert_eq!(
        (&listed["terminals"][0]["terminalId"], &listed["terminals"][0]["running"]),
        (id, &true.into())
    );
    let ended = client
        .result("terminal_send", json!({ "terminalId": id, "keys": ["Ctrl-D"], "waitMs": 20_000 }))
        .await;
    assert_eq!((&ended["running"], &ended["exitCode"]), (&false.into(), &0.into()), "{ended}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_interrupts_a_program_and_a_read_waits_for_its_output() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("interrupt");
    let opened = client.result("terminal_open", json!({ "waitMs": 20_000 })).await;
    let id = &opened["terminalId"];
    let line = json!({ "terminalId": id, "text": "until [ -e go ]; do sleep 0.1; done; echo wait is over", "keys": ["Enter"] });
    assert!(!screen(&client.result("terminal_send", line).await).contains("\nwait is over"));
    client.output("touch go").await;
    let read = client.result("terminal_read", json!({ "terminalId": id, "waitMs": 20_000 })).await;
    assert!(screen(&read).contains("\nwait is over\n"), "{read}");

    client
        .result("terminal_send", json!({ "terminalId": id, "text": "sleep 1000", "keys": ["Enter"] }))
        .await;
    let broken = json!({ "terminalId": id, "keys": ["Ctrl-C"], "waitMs": 20_000 });
    client.result("terminal_send", broken).await;
    let code = json!({ "terminalId": id, "text": "echo code=$?", "keys": ["Enter"], "waitMs": 20_000 });
    let shown = client.result("terminal_send", code).await;
    assert!(screen(&shown).contains("\ncode=130\n"), "{shown}");

    client.result("terminal_close", json!({ "terminalId": id })).await;
    let gone = client.failure("terminal_read", json!({ "terminalId": id })).await;
    assert!(gone.contains("no such terminal"), "{gone}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_explained() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("mistakes");
    let opened = client.result("terminal_open", json!({})).await;
    let id = &opened["terminalId"];
    for (arguments, problem) in [
        (json!({ "terminalId": id, "keys": ["Hyper-x"] }), "unknown key `Hyper-x`"),
        (json!({ "terminalId": id }), "`text` or `keys` must be given"),
        (json!({ "terminalId": "x", "text": "a" }), "`terminalId`"),
        (json!({ "terminalId": id, "text": "a", "waitMs": 60_001 }), "`waitMs` must be at most 60000"),
    ] {
        let text = client.failure("terminal_send", arguments.clone()).await;
        assert!(text.contains(problem), "{arguments}: {text}");
    }
    daemon.stop().await;
}
