//! Servers that send too much.

use chat::model::{Error, Piece};
use serde_json::json;

use crate::received::{anthropic, anthropic_at, both_at, fault, openai, openai_at, question, send};
use crate::scripted_model::{Reply, ScriptedModel, Step};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn the_length_of_a_line_is_limited() {
    let endless = Reply::stream("data: ").then(Step::Repeat(vec![b'x'; MIB].into(), 100));
    let whole = Reply::text(200, "application/json", "[").then(Step::Repeat(vec![b' '; MIB].into(), 100));
    for reply in [endless, whole] {
        let server = ScriptedModel::start([reply.clone(), reply]).await;
        for (name, client) in both_at(&server.base) {
            let error = fault(&*client).await;
            assert!(matches!(error, Error::TooLong { limit } if limit == 16 * MIB), "{name}: {error:?}");
        }
        server.until_left().await;
    }
}

#[tokio::test]
async fn a_response_of_100_mb_is_rejected() {
    let text = "x".repeat(MIB);
    let chunk = json!({"choices": [{"delta": {"content": text}}]});
    let delta =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let flood = |event: &serde_json::Value| {
        Reply::stream("").then(Step::Repeat(format!("data: {event}\n\n").into(), 100))
    };
    let server = ScriptedModel::start([flood(&chunk), flood(&delta)]).await;
    let openai = send(&openai_at(&server.base), question("hi")).await;
    let anthropic = send(&anthropic_at(&server.base), question("hi")).await;
    for received in [openai, anthropic] {
        let texts = received.pieces.iter().filter(|piece| matches!(piece, Piece::Text(_))).count();
        assert_eq!(texts, 63, "the text before it is reported");
        assert!(
            matches!(received.error, Some(Error::TooLong { limit }) if limit == 64 * MIB),
            "{:?}",
            received.error
        );
    }
    server.until_left().await;
}

#[tokio::test]
async fn the_length_of_an_input_is_limited() {
    let part = "x".repeat(MIB);
    let call = json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": part}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let more = Step::Repeat(format!("data: {chunk}\n\n").into(), 9);
    let received = openai(Reply::stream("").then(more)).await;
    assert!(
        matches!(received.error, Some(Error::InputTooLong { limit }) if limit == 8 * MIB),
        "{:?}",
        received.error
    );

    let block = json!({"type": "tool_use", "id": "a", "name": "bash", "input": {}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = json!({"type": "input_json_delta", "partial_json": part});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let more = Step::Repeat(format!("data: {delta}\n\n").into(), 9);
    let received = anthropic(Reply::stream(format!("data: {start}\n\n")).then(more)).await;
    assert!(
        matches!(received.error, Some(Error::InputTooLong { limit }) if limit == 8 * MIB),
        "{:?}",
        received.error
    );
}

#[tokio::test]
async fn the_number_of_calls_is_limited() {
    let calls = |count: u64| {
        let call =
            |index: u64| json!({"index": index, "id": format!("id{index}"), "function": {"name": "bash"}});
        let calls: Vec<_> = (0..count).map(call).collect();
        let chunk = json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
        Reply::stream(format!("data: {chunk}\n\n"))
    };
    assert_eq!(openai(calls(64)).await.calls().len(), 64);
    let error = openai(calls(65)).await.error;
    assert!(matches!(error, Some(Error::TooManyCalls { limit: 64 })), "{error:?}");

    let block = |index: u64| {
        let block = json!({"type": "tool_use", "id": format!("id{index}"), "name": "bash"});
        let start = json!({"type": "content_block_start", "index": index, "content_block": block});
        let stop = json!({"type": "content_block_stop", "index": index});
        format!("data: {start}\n\ndata: {stop}\n\n")
    };
    let events: String = (0..65).map(block).collect();
    let received = anthropic(Reply::stream(events)).await;
    assert_eq!(received.calls().len(), 64);
    assert!(matches!(received.error, Some(Error::TooManyCalls { limit: 64 })), "{:?}", received.error);
}
