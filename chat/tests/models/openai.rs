//! OpenAI's chat completions API: responses of compatible servers.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::received::openai;
use crate::scripted_model::Reply;

/// Plays a response whole and in small pieces, and returns the pieces that the client reports for both.
async fn lines_of(events: &'static str) -> Vec<String> {
    let whole = openai(Reply::stream(events)).await.lines();
    let in_pieces = openai(Reply::in_pieces(events, 7)).await.lines();
    assert_eq!(without_made_ids(&whole), without_made_ids(&in_pieces));
    whole
}

/// Generated ids differ between responses.
fn without_made_ids(lines: &[String]) -> Vec<String> {
    let is_made = |word: &str| word.len() == 37 && word.starts_with("call_");
    let plain = |line: &String| {
        line.split(' ').map(|word| if is_made(word) { "made" } else { word }).collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(plain).collect()
}

/// A stream of one choice's deltas, with its end.
fn stream_of(deltas: &[Value], finish_reason: &str) -> String {
    let choice =
        |delta: &Value, reason: Value| json!({"choices": [{"delta": delta, "finish_reason": reason}]});
    let mut chunks: Vec<_> = deltas.iter().map(|delta| choice(delta, Value::Null)).collect();
    chunks.push(choice(&json!({}), finish_reason.into()));
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

async fn lines_of_deltas(deltas: &[Value]) -> Vec<String> {
    without_made_ids(&openai(Reply::stream(stream_of(deltas, "stop"))).await.lines())
}

#[tokio::test]
async fn text_is_streamed_as_it_arrives() {
    let lines = lines_of(include_str!("fixtures/openai_text.sse")).await;
    assert_eq!(lines, ["text Grüße, 世界 👋", "end Stop"]);
}

#[tokio::test]
async fn calls_in_parallel_are_kept_apart() {
    let lines = lines_of(include_str!("fixtures/openai_parallel_calls.sse")).await;
    assert_eq!(
        lines,
        [
            "text Both at once.",
            "begun call_a bash",
            "input call_a {\"comm",
            "begun call_b readFile",
            "input call_a and\":\"ls\"}",
            "input call_b {\"path\":\"a.txt\"}",
            "called call_a bash {\"command\":\"ls\"}",
            "called call_b readFile {\"path\":\"a.txt\"}",
            "end ToolCalls",
        ]
    );
}

#[tokio::test]
async fn calls_that_share_an_index_are_kept_apart_and_end_the_answer() {
    let lines = lines_of(include_str!("fixtures/ollama_calls.sse")).await;
    assert_eq!(
        lines,
        [
            "thinking List, then look.",
            "thought not to be sent back",
            "begun call_1 bash",
            "input call_1 {\"command\":\"ls\"}",
            "begun call_2 bash",
            "input call_2 {\"command\":\"pwd\"}",
            "called call_1 bash {\"command\":\"ls\"}",
            "called call_2 bash {\"command\":\"pwd\"}",
            "end ToolCalls",
        ]
    );
}

#[tokio::test]
async fn a_call_keeps_its_first_id() {
    let lines = lines_of(include_str!("fixtures/vllm_reasoning.sse")).await;
    assert_eq!(
        lines,
        [
            "thinking The user wants ls.",
            "thought \"reasoning_content\"",
            "text Listing.",
            "begun chatcmpl-tool-1 bash",
            "input chatcmpl-tool-1 {\"command\": \"ls\"}",
            "called chatcmpl-tool-1 bash {\"command\":\"ls\"}",
            "end ToolCalls",
        ]
    );
}

#[tokio::test]
async fn calls_without_index_or_id_are_whole_and_get_ids() {
    let received = openai(Reply::stream(include_str!("fixtures/gemini_calls.sse"))).await;
    assert_eq!(
        without_made_ids(&received.lines()),
        [
            "text Looking.",
            "begun made bash",
            "input made {\"command\":\"ls\"}",
            "begun made bash",
            "input made {\"command\":\"pwd\"}",
            "called made bash {\"command\":\"ls\"} with {\"google\":{\"thought_signature\":\"c2lnbmVk\"}}",
            "called made bash {\"command\":\"pwd\"}",
            "end ToolCalls",
        ]
    );
    let ids: HashSet<_> = received.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(ids.len(), 2);
}

#[tokio::test]
async fn unusual_deltas_are_understood() {
    let call = |call: Value| json!({"tool_calls": [call]});
    let cases: [(Vec<Value>, Vec<&str>); 10] = [
        (vec![json!({"role": "", "content": "a", "refusal": {"odd": true}})], vec!["text a"]),
        (vec![json!({"refusal": "I will not."})], vec!["text I will not."]),
        (vec![json!({"content": null, "tool_calls": null, "reasoning": {"effort": "low"}})], vec![]),
        (
            vec![json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "a"},
                {"type": "image"},
            ]})],
            vec!["thinking hm", "thought not to be sent back", "text a"],
        ),
        (vec![json!({"reasoning_content": "hm"})], vec!["thinking hm", "thought \"reasoning_content\""]),
        (
            vec![call(json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": null}}))],
            vec!["begun a bash", "called a bash {}"],
        ),
        (
            vec![call(json!({"id": 7, "function": {"name": "bash", "arguments": {"command": "ls"}}}))],
            vec![
                "begun made bash",
                "input made {\"command\":\"ls\"}",
                "called made bash {\"command\":\"ls\"}",
            ],
        ),
        (
            vec![
                call(json!({"id": "a", "function": {"name": "bash", "arguments": "{\"a\""}})),
                call(json!({"function": {"arguments": ":1}"}})),
            ],
            vec!["begun a bash", "input a {\"a\":1}", "called a bash {\"a\":1}"],
        ),
        (
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{"}})),
                call(json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": "rm"}})),
            ],
            vec!["begun a bash", "input a {rm", "called a bash no JSON: {rm"],
        ),
        (
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "bash"}})),
                call(json!({"index": 1, "id": "a", "function": {"name": "bash"}})),
            ],
            vec!["begun a bash", "begun made bash", "called a bash {}", "called made bash {}"],
        ),
    ];
    for (deltas, wanted) in cases {
        let lines = lines_of_deltas(&deltas).await;
        let end =
            if wanted.iter().any(|line| line.starts_with("called")) { "end ToolCalls" } else { "end Stop" };
        assert_eq!(lines, [&wanted[..], &[end]].concat(), "{deltas:?}");
    }
}

#[tokio::test]
async fn every_finish_reason_is_reported() {
    for (reason, wanted) in [
        ("stop", "Stop"),
        ("tool_calls", "Stop"),
        ("length", "Length"),
        ("content_filter", "ContentFilter"),
        ("insufficient_system_resource", "Other"),
    ] {
        let lines = openai(Reply::stream(stream_of(&[], reason))).await.lines();
        assert_eq!(lines, [format!("end {wanted}")], "{reason}, without a call");
    }
}

#[tokio::test]
async fn either_end_marker_is_enough() {
    let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let finished = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    for (events, wanted) in [
        (format!("{delta}data: [DONE]\n\n"), "end Stop"),
        (format!("{delta}{finished}"), "end Length"),
        (format!("{delta}data:\n\n"), "error the model's answer ended before it was complete"),
    ] {
        assert_eq!(openai(Reply::stream(events)).await.lines(), ["text a", wanted]);
    }
}

#[tokio::test]
async fn a_response_without_streaming_is_accepted() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "Now.", "reasoning": "hm", "tool_calls": [call]});
    let answer = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let lines = openai(Reply::json(200, &answer)).await.lines();
    assert_eq!(
        lines,
        [
            "thinking hm",
            "thought not to be sent back",
            "text Now.",
            "begun a bash",
            "input a {}",
            "called a bash {}",
            "end ToolCalls",
        ]
    );
}
