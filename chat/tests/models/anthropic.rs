//! Anthropic's messages API: responses and requests.

use chat::model::{Block, Thinking, ToolCall, ToolResult, Turn};
use serde_json::{Value, json};

use crate::received::{KEY, anthropic, anthropic_at, conversation, question, send};
use crate::scripted_model::{Reply, ScriptedModel};

/// Plays a response whole and in small pieces, and returns the pieces that the client reports for both.
async fn lines_of(events: &'static str) -> Vec<String> {
    let whole = anthropic(Reply::stream(events)).await.lines();
    assert_eq!(whole, anthropic(Reply::in_pieces(events, 7)).await.lines());
    whole
}

#[tokio::test]
async fn text_is_streamed_as_it_arrives() {
    let lines = lines_of(include_str!("fixtures/anthropic_text.sse")).await;
    assert_eq!(lines, ["text Grüße, 世界 👋", "end Stop"]);
}

#[tokio::test]
async fn thinking_has_a_signature_and_calls_can_be_parallel() {
    let lines = lines_of(include_str!("fixtures/anthropic_calls.sse")).await;
    assert_eq!(
        lines,
        [
            "thinking List it, then read.",
            "thought {\"signature\":\"EqQBCgIYAhIM\",\"thinking\":\"List it, then read.\",\"type\":\"thinking\"}",
            "text Both at once.",
            "begun toolu_a bash",
            "input toolu_a {\"command\":\"ls\"}",
            "called toolu_a bash {\"command\":\"ls\"}",
            "begun toolu_b sandboxUrl",
            "called toolu_b sandboxUrl {}",
            "end ToolCalls",
        ]
    );
}

#[tokio::test]
async fn redacted_thinking_is_thinking() {
    let lines = lines_of(include_str!("fixtures/anthropic_redacted.sse")).await;
    assert_eq!(
        lines,
        ["thought {\"data\":\"EmwKAhgBEgy3\",\"type\":\"redacted_thinking\"}", "text Done.", "end Stop"]
    );
}

#[tokio::test]
async fn every_finish_reason_is_reported() {
    for (reason, wanted) in [
        ("end_turn", "Stop"),
        ("stop_sequence", "Stop"),
        ("tool_use", "Stop"),
        ("max_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("refusal", "ContentFilter"),
        ("pause_turn", "Other"),
        ("compaction", "Other"),
    ] {
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
        let lines = anthropic(Reply::stream(format!("data: {delta}\n\n"))).await.lines();
        assert_eq!(lines, [format!("end {wanted}")], "{reason}, without a call and without message_stop");
    }
}

#[tokio::test]
async fn an_incomplete_block_is_ignored() {
    let block = json!({"type": "tool_use", "id": "a", "name": "bash", "input": {}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    let lines = anthropic(Reply::stream(format!("data: {start}\n\ndata: {stop}\n\n"))).await.lines();
    assert_eq!(lines, ["begun a bash", "error the model's answer ended before it was complete"]);
}

#[tokio::test]
async fn a_response_without_streaming_is_accepted() {
    let answer = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
    ]});
    let lines = anthropic(Reply::json(200, &answer)).await.lines();
    let wanted = [
        "thinking hm",
        "thought not to be sent back",
        "text Now.",
        "begun a bash",
        "input a {\"command\":\"ls\"}",
        "called a bash {\"command\":\"ls\"}",
        "end ToolCalls",
    ];
    assert_eq!(lines, wanted);
}

#[tokio::test]
async fn the_conversation_is_sent_in_the_apis_format() {
    let server = ScriptedModel::start([Reply::stream(include_str!("fixtures/anthropic_text.sse"))]).await;
    let call = |id: &str, name: &str, input| {
        Block::Call(ToolCall { id: id.into(), name: name.into(), input, opaque: None })
    };
    let foreign = Some(
        json!({"host": "other.example", "content": {"type": "thinking", "thinking": "Hm.", "signature": "x"}}),
    );
    let result = |id: &str, content: &str, is_error| ToolResult {
        call_id: id.into(),
        content: content.into(),
        is_error,
    };
    let request = conversation(vec![
        Turn::User("One thing.".into()),
        Turn::User("What is here?".into()),
        Turn::Model(vec![
            Block::Thinking(Thinking { text: "Hm.".into(), opaque: foreign }),
            Block::Thinking(Thinking { text: "Hm.".into(), opaque: None }),
            Block::Text("Let me look.".into()),
            Block::Text(" \n".into()),
            call("toolu_a", "bash", Ok(json!({"command": "ls"}))),
            call("functions.bash:1", "functions.bash", Err("{\"command".into())),
        ]),
        Turn::Tools(vec![result("toolu_a", "a.txt", false), result("functions.bash:1", "no JSON", true)]),
        Turn::User("And now?".into()),
        Turn::Model(Vec::new()),
        Turn::User(" ".into()),
        Turn::User("Well?".into()),
    ]);
    assert!(send(&anthropic_at(&server.base), request).await.error.is_none());
    let received = server.requests().remove(0);
    let golden: Value = serde_json::from_str(include_str!("fixtures/anthropic_request.json")).unwrap();
    assert_eq!(received.body, golden, "{:#}", received.body);
    assert_eq!(received.path, "/some/path/v1/messages");
    assert_eq!(received.headers["x-api-key"], KEY);
    assert_eq!(received.headers["anthropic-version"], "2023-06-01");
    assert_eq!(received.headers.get("authorization"), None);
}

#[tokio::test]
async fn tool_results_come_before_later_user_messages() {
    let server = ScriptedModel::start([Reply::stream("data: {\"type\": \"message_stop\"}\n\n")]).await;
    let call = ToolCall { id: "a".into(), name: "bash".into(), input: Ok(json!({})), opaque: None };
    let result = ToolResult { call_id: "a".into(), content: "ok".into(), is_error: false };
    let turns = vec![
        Turn::User("go".into()),
        Turn::Model(vec![Block::Call(call)]),
        Turn::User("wait".into()),
        Turn::Tools(vec![result]),
    ];
    send(&anthropic_at(&server.base), conversation(turns)).await;
    let last = &server.requests()[0].body["messages"][2]["content"];
    assert_eq!((&last[0]["type"], &last[1]["type"]), (&json!("tool_result"), &json!("text")), "{last:#}");
}

#[tokio::test]
async fn thinking_is_sent_back_unchanged() {
    for (events, wanted) in [
        (
            include_str!("fixtures/anthropic_calls.sse"),
            json!({"type": "thinking", "thinking": "List it, then read.", "signature": "EqQBCgIYAhIM"}),
        ),
        (
            include_str!("fixtures/anthropic_redacted.sse"),
            json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3"}),
        ),
    ] {
        let server = ScriptedModel::start([Reply::stream(events), Reply::stream(events)]).await;
        let client = anthropic_at(&server.base);
        let first = send(&client, question("go")).await;
        let turns = vec![Turn::User("go".into()), first.turn(), Turn::User("on".into())];
        send(&client, conversation(turns)).await;
        let body = server.requests().remove(1).body;
        assert_eq!(body["messages"][1]["content"][0], wanted, "{body:#}");
    }
}

#[tokio::test]
async fn a_version_in_the_base_url_is_not_repeated() {
    for (path, wanted) in [
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v10", "/v10/v1/messages"),
    ] {
        let server = ScriptedModel::start([Reply::stream(include_str!("fixtures/anthropic_text.sse"))]).await;
        send(&anthropic_at(&server.base.join(path).unwrap()), question("hi")).await;
        assert_eq!(server.requests()[0].path, wanted, "{path}");
    }
}
