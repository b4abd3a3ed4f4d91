//! OpenAI's chat completions API: requests.

use chat::model::{Block, Piece, Thinking, ToolCall, ToolResult, Turn};
use serde_json::{Value, json};

use crate::received::{KEY, conversation, openai_at, question, send};
use crate::scripted_model::{Reply, ScriptedModel};

#[tokio::test]
async fn the_conversation_is_sent_in_the_apis_format() {
    let server = ScriptedModel::start([Reply::stream(include_str!("fixtures/openai_text.sse"))]).await;
    let call = |id: &str, name: &str, input| {
        let foreign = Some(json!({"host": "other.example", "content": {"x": 1}}));
        Block::Call(ToolCall { id: id.into(), name: name.into(), input, opaque: foreign })
    };
    let thinking = |text: &str| {
        Block::Thinking(Thinking {
            text: text.into(),
            opaque: Some(json!({"host": "other.example", "content": "reasoning_content"})),
        })
    };
    let result = |id: &str, content: &str, is_error| ToolResult {
        call_id: id.into(),
        content: content.into(),
        is_error,
    };
    let request = conversation(vec![
        Turn::User("What is here?".into()),
        Turn::Model(vec![
            thinking("Hm."),
            Block::Text("Let me ".into()),
            Block::Text("look.".into()),
            call("call_a", "bash", Ok(json!({"command": "ls"}))),
            call("call_b", "functions.bash", Err("{\"command".into())),
        ]),
        Turn::Tools(vec![result("call_a", "a.txt", false), result("call_b", "no JSON", true)]),
        Turn::Model(vec![thinking("Only thoughts.")]),
        Turn::Model(vec![call("call_c", "bash", Ok(json!({})))]),
        Turn::Tools(vec![result("call_c", "", false)]),
        Turn::User("And now?".into()),
    ]);
    assert!(send(&openai_at(&server.base), request).await.error.is_none());
    let received = server.requests().remove(0);
    let golden: Value = serde_json::from_str(include_str!("fixtures/openai_request.json")).unwrap();
    assert_eq!(received.body, golden, "{:#}", received.body);
    assert_eq!(received.path, "/some/path/chat/completions");
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(received.headers["content-type"], "application/json");
}

#[tokio::test]
async fn empty_parts_are_not_sent() {
    let server = ScriptedModel::start([Reply::stream("data: [DONE]\n\n")]).await;
    let mut request = question("hi");
    request.system.clear();
    request.tools = [].into();
    send(&openai_at(&server.base), request).await;
    let golden =
        json!({"model": "some-model", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(server.requests()[0].body, golden);
}

/// Sends a request, answers all calls, and sends the second request. Returns its body.
async fn second_request(events: &'static str) -> Value {
    let server = ScriptedModel::start([Reply::stream(events), Reply::stream("data: [DONE]\n\n")]).await;
    let client = openai_at(&server.base);
    let received = send(&client, question("go")).await;
    let results = received.calls().into_iter().map(|call| ToolResult {
        call_id: call.id,
        content: "ok".into(),
        is_error: false,
    });
    let turns = vec![Turn::User("go".into()), received.turn(), Turn::Tools(results.collect())];
    send(&client, conversation(turns)).await;
    server.requests().remove(1).body
}

#[tokio::test]
async fn a_server_gets_its_own_fields_back() {
    let body = second_request(include_str!("fixtures/gemini_calls.sse")).await;
    let calls = &body["messages"][2]["tool_calls"];
    assert_eq!(calls[0]["extra_content"], json!({"google": {"thought_signature": "c2lnbmVk"}}), "{body:#}");
    assert_eq!(calls[1].get("extra_content"), None, "{body:#}");
    assert_eq!(calls[1]["id"], body["messages"][4]["tool_call_id"]);

    let body = second_request(include_str!("fixtures/vllm_reasoning.sse")).await;
    assert_eq!(body["messages"][2]["reasoning_content"], "The user wants ls.", "{body:#}");
    let body = second_request(include_str!("fixtures/ollama_calls.sse")).await;
    assert_eq!(body["messages"][2].get("reasoning_content"), None, "{body:#}");
}

#[tokio::test]
async fn an_id_of_the_conversation_is_not_reused() {
    let events = include_str!("fixtures/openai_parallel_calls.sse");
    let server = ScriptedModel::start([Reply::stream(events)]).await;
    let old = ToolCall { id: "call_a".into(), name: "bash".into(), input: Ok(json!({})), opaque: None };
    let result = ToolResult { call_id: "call_a".into(), content: String::new(), is_error: false };
    let turns = vec![Turn::User("go".into()), Turn::Model(vec![Block::Call(old)]), Turn::Tools(vec![result])];
    let received = send(&openai_at(&server.base), conversation(turns)).await;
    let ids: Vec<_> = received.calls().into_iter().map(|call| call.id).collect();
    assert_eq!((ids.len(), ids[1].as_str()), (2, "call_b"));
    assert_ne!(ids[0], "call_a");
    let begun = received.pieces.iter().find_map(|piece| match piece {
        Piece::CallBegun { id, .. } => Some(id),
        _ => None,
    });
    assert_eq!(begun, Some(&ids[0]));
}

#[tokio::test]
async fn an_unanswered_message_is_sent_with_the_next_one() {
    let server = ScriptedModel::start([Reply::stream(include_str!("fixtures/openai_text.sse"))]).await;
    let turns = vec![Turn::User("one".into()), Turn::User("two".into())];
    send(&openai_at(&server.base), conversation(turns)).await;
    let messages = &server.requests()[0].body["messages"];
    assert_eq!(messages[1], json!({ "role": "user", "content": "one\n\ntwo" }));
    assert_eq!(messages.as_array().unwrap().len(), 2);
}
