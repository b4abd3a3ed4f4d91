//! A model server with the chat completions of OpenAI's API. Its model runs what the user says with the tool `bash`, and
//! repeats the result.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The name of the model.
pub(super) const MODEL: &str = "scripted";

/// Serves until its task is aborted. Returns the base URL and the task.
pub(super) async fn serve() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let models = json!({ "object": "list", "data": [{ "id": MODEL, "object": "model", "owned_by": "us" }] });
    let router = Router::new()
        .route("/v1/models", get(async || Json(models)))
        .route("/v1/chat/completions", post(complete));
    (base, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

async fn complete(Json(request): Json<Value>) -> Response {
    let message = answer(&request);
    let reason = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    if request["stream"] != true {
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        return Json(json!({ "id": "1", "object": "chat.completion", "model": MODEL, "choices": [choice] }))
            .into_response();
    }
    let chunk = |delta: &Value, reason: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk =
            json!({ "id": "1", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let events = [chunk(&message, None), chunk(&json!({}), Some(reason)), "data: [DONE]\n\n".into()];
    ([("content-type", "text/event-stream")], Body::from(events.concat())).into_response()
}

/// A call of the tool with the user's text, or the text of the tool's result. Without tools, a title for the chat.
fn answer(request: &Value) -> Value {
    let names = request["tools"].as_array().into_iter().flatten();
    let bash =
        names.filter_map(|tool| tool["function"]["name"].as_str()).find(|name| name.ends_with("_bash"));
    let last = request["messages"].as_array().and_then(|messages| messages.last()).unwrap();
    match bash {
        None => json!({ "role": "assistant", "content": "A chat" }),
        Some(_) if last["role"] == "tool" => {
            json!({ "role": "assistant", "content": format!("```\n{}\n```", last["content"]) })
        }
        Some(name) => {
            let arguments = json!({ "command": last["content"] }).to_string();
            let function = json!({ "name": name, "arguments": arguments });
            let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
            json!({ "role": "assistant", "content": null, "tool_calls": [call] })
        }
    }
}
