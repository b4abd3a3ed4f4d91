//! Servers that say too much.

use chat::model::{Error, Piece};
use serde_json::json;

use crate::heard::{anthropic, anthropic_at, ask, both_at, fault, openai, openai_at, question};
use crate::scripted_model::{Reply, ScriptedModel, Step};

const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn a_line_has_an_end() {
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
async fn an_answer_of_100_mb_is_not_taken() {
    let text = "x".repeat(MIB);
    let chunk = json!({"choices": [{"delta": {"content": text}}]});
    let delta =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let flood = |event: &serde_json::Value| {
        Reply::stream("").then(Step::Repeat(format!("data: {event}\n\n").into(), 100))
    };
    let server = ScriptedModel::start([flood(&chunk), flood(&delta)]).await;
    let openai = ask(&openai_at(&server.base), question("hi")).await;
    let anthropic = ask(&anthropic_at(&server.base), question("hi")).await;
    for heard in [openai, anthropic] {
        let texts = heard.pieces.iter().filter(|piece| matches!(piece, Piece::Text(_))).count();
        assert_eq!(texts, 63, "what came before is told");
        assert!(
            matches!(heard.error, Some(Error::TooLong { limit }) if limit == 64 * MIB),
            "{:?}",
            heard.error
        );
    }
    server.until_left().await;
}

#[tokio::test]
async fn an_input_has_a_limit() {
    let part = "x".repeat(MIB);
    let call = json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": part}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let more = Step::Repeat(format!("data: {chunk}\n\n").into(), 9);
    let heard = openai(Reply::stream("").then(more)).await;
    assert!(
        matches!(heard.error, Some(Error::InputTooLong { limit }) if limit == 8 * MIB),
        "{:?}",
        heard.error
    );

    let block = json!({"type": "tool_use", "id": "a", "name": "bash", "input": {}});
    let start = json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = json!({"type": "input_json_delta", "partial_json": part});
    let delta = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let more = Step::Repeat(format!("data: {delta}\n\n").into(), 9);
    let heard = anthropic(Reply::stream(format!("data: {start}\n\n")).then(more)).await;
    assert!(
        matches!(heard.error, Some(Error::InputTooLong { limit }) if limit == 8 * MIB),
        "{:?}",
        heard.error
    );
}

#[tokio::test]
async fn calls_have_a_limit() {
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
    let heard = anthropic(Reply::stream(events)).await;
    assert_eq!(heard.calls().len(), 64);
    assert!(matches!(heard.error, Some(Error::TooManyCalls { limit: 64 })), "{:?}", heard.error);
}
