//! Turns with a model: its tool calls are carried out, and it receives the results.

use std::collections::HashSet;
use std::sync::Arc;

use chat::model::{Anthropic, ModelClient, OpenAi};
use reqwest::Method;
use serde_json::{Value, json};
use test_daemon::until;

use crate::scripted_model::{Reply, ScriptedModel, Step};
use crate::test_app::{Chunks, TestApp};

/// A chunk of OpenAI's stream.
pub(crate) fn chunk(delta: Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
}

pub(crate) fn text(words: &str) -> Reply {
    Reply::stream(
        chunk(json!({ "content": words }), None) + &chunk(json!({}), Some("stop")) + "data: [DONE]\n\n",
    )
}

/// Tool calls, each with its input as the model writes it. The server numbers them from 0 each time.
pub(crate) fn calls(all: &[(&str, &str)]) -> Reply {
    let call = |(index, (name, input)): (usize, &(&str, &str))| {
        let call = json!({ "index": index, "id": format!("call_{index}"), "type": "function",
            "function": { "name": name, "arguments": input } });
        chunk(json!({ "tool_calls": [call] }), None)
    };
    let reported: String = all.iter().enumerate().map(call).collect();
    Reply::stream(reported + &chunk(json!({}), Some("tool_calls")) + "data: [DONE]\n\n")
}

pub(crate) async fn with(replies: impl IntoIterator<Item = Reply>) -> (TestApp, ScriptedModel) {
    let model = ScriptedModel::start(replies).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    (TestApp::with("localhost", "", vec![client]).await, model)
}

pub(crate) fn of_type<'a>(reported: &'a [Value], kind: &str) -> Vec<&'a Value> {
    reported.iter().filter(|chunk| chunk["type"] == kind).collect()
}

pub(crate) fn text_of(reported: &[Value]) -> String {
    of_type(reported, "text-delta").iter().map(|chunk| chunk["delta"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_calls_tools_and_gets_their_results() {
    let (app, model) = with([
        calls(&[
            ("writeFile", r#"{"path":"site/index.html","content":"<h1>hi</h1>"}"#),
            ("bash", r#"{"command":"echo out; echo err >&2; exit 4"}"#),
        ]),
        calls(&[("bash", r#"{"command":"cat site/index.html"}"#), ("sandboxUrl", r#"{"port":3000}"#)]),
        text("Here it is."),
        text("You are welcome."),
    ])
    .await;
    let reported = app.send("1", "build me a page").await;
    assert_eq!(text_of(&reported), "Here it is.");
    let last_of = |reported: &[Value], id: &Value| {
        let all: Vec<_> = of_type(reported, "tool-output-available")
            .into_iter()
            .filter(|it| it["toolCallId"] == *id)
            .cloned()
            .collect();
        all.last().unwrap()["output"].clone()
    };
    let inputs = of_type(&reported, "tool-input-available");
    assert_eq!(inputs.len(), 4);
    assert_eq!(
        last_of(&reported, &inputs[1]["toolCallId"]),
        json!({ "stdout": "out\n", "stderr": "err\n", "exitCode": 4 })
    );
    assert_eq!(last_of(&reported, &inputs[2]["toolCallId"])["stdout"], "<h1>hi</h1>");
    assert!(last_of(&reported, &inputs[3]["toolCallId"])["url"].as_str().unwrap().starts_with("http"));
    assert_eq!(of_type(&reported, "start-step").len(), 3);
    assert_eq!(reported.last().unwrap(), &json!({ "type": "finish", "finishReason": "stop" }));

    let received = model.requests();
    assert_eq!(
        received[0].body["messages"].as_array().unwrap().last().unwrap()["content"],
        "build me a page"
    );
    assert_eq!(received[0].body["tools"].as_array().unwrap().len(), 5);
    let results: Vec<_> =
        received[1].body["messages"].as_array().unwrap().iter().filter(|it| it["role"] == "tool").collect();
    assert_eq!(results.len(), 2);
    assert!(results[1]["content"].as_str().unwrap().contains(r#""exitCode":4"#));

    // The stored messages and those of the turn are the same for the model.
    app.send("1", "thank you").await;
    let (before, after) = (&model.requests()[2].body["messages"], &model.requests()[3].body["messages"]);
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(after[..before.len()], before[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_the_models_answer_and_its_commands() {
    let (app, model) = with([
        Reply::stream(chunk(json!({ "content": "Thinking" }), None)).then(Step::StaySilent),
        calls(&[("bash", r#"{"command":"echo begun; exec sleep 987.5"}"#)]),
        text("Back."),
    ])
    .await;
    let mut reported = Chunks::new(app.say("1", "think").send().await.unwrap());
    while reported.next().await.unwrap()["type"] != "text-delta" {}
    app.stop("1").await;
    model.until_left().await;

    let is_free = || async { app.get("/api/chats/1").await.1["running"] == false };
    until("the turn has ended", is_free).await;
    let mut reported = Chunks::new(app.say("1", "run").send().await.unwrap());
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    app.stop("1").await;
    until("the turn has ended", is_free).await;
    let count = "/bash cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '987[.]5'";
    until("the command has ended", || async { app.output("1", count).await["stdout"] == "0\n" }).await;
    assert_eq!(text_of(&app.send("1", "and now?").await), "Back.");
    assert_eq!(model.requests().len(), 3, "no request was sent for a stopped answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_continues_without_its_page_and_others_join_it() {
    let wait = r#"{"command":"echo begun; until [[ -e go ]]; do sleep 0.1; done; echo ended"}"#;
    let (app, _model) = with([calls(&[("bash", wait)]), text("It has ended.")]).await;
    assert_eq!(app.join("1").await.status(), 404);
    let mut first = Chunks::new(app.say("1", "wait for it").send().await.unwrap());
    while first.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    drop(first);
    let (mut second, mut third) = (Chunks::new(app.join("1").await), Chunks::new(app.join("1").await));
    let mut joined = Vec::new();
    while joined.last().is_none_or(|chunk: &Value| chunk["output"]["stdout"] != "begun\n") {
        joined.push(second.next().await.unwrap());
    }
    let types: Vec<_> = joined.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect();
    assert_eq!(types.iter().filter(|one| **one == "tool-input-available").count(), 1, "{types:?}");
    assert!(types.contains(&"start") && !types.contains(&"tool-input-delta"), "{types:?}");
    let (_, chat) = app.get("/api/chats/1").await;
    assert_eq!(chat["turnId"], joined.iter().find(|chunk| chunk["type"] == "start").unwrap()["messageId"]);
    // Another turn than the running one is not stopped.
    let other = json!({ "turnId": "msg_other" });
    let stop = app.request(Method::POST, "/api/chats/1/stop").json(&other);
    assert_eq!(stop.send().await.unwrap().status(), 204);

    let go = app.request(Method::PUT, "/api/chats/1/files/content?path=go").body("x");
    assert!(go.send().await.unwrap().status().is_success());
    let rest = async |page: &mut Chunks, all: &mut Vec<Value>| {
        while let Some(chunk) = page.next().await {
            all.push(chunk);
        }
        assert!(page.is_done);
    };
    let mut whole = Vec::new();
    rest(&mut second, &mut joined).await;
    rest(&mut third, &mut whole).await;
    for all in [&joined, &whole] {
        assert_eq!(text_of(all), "It has ended.");
        assert_eq!(all.last().unwrap(), &json!({ "type": "finish", "finishReason": "stop" }));
    }
    let (_, chat) = app.get("/api/chats/1").await;
    assert_eq!((&chat["running"], &chat["turnId"]), (&json!(false), &json!(null)));
    assert_eq!(chat["messages"][1]["parts"][1]["output"]["stdout"], "begun\nended\n");
    assert_eq!(app.join("1").await.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_reads_nothing_does_not_delay_the_answer() {
    let flood = r#"{"command":"for i in $(seq 30); do seq 2000; sleep 0.05; done"}"#;
    let calls = |_| calls(&[("bash", flood), ("bash", flood), ("bash", flood)]);
    let (app, _model) = with((0..3).map(calls).chain([text("Done.")]).collect::<Vec<_>>()).await;
    let _idle = app.say("1", "flood").send().await.unwrap();
    let mut page = Chunks::new(app.join("1").await);
    let mut all = Vec::new();
    while let Some(chunk) = page.next().await {
        all.push(chunk);
    }
    assert_eq!(text_of(&all), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropics_thinking_is_sent_back_with_its_signature() {
    let events = include_str!("../models/fixtures/anthropic_calls.sse");
    let end = include_str!("../models/fixtures/anthropic_text.sse");
    let model = ScriptedModel::start([Reply::stream(events), Reply::stream(end), Reply::stream(end)]).await;
    let client: Arc<dyn ModelClient> = Arc::new(Anthropic::new(model.base.clone(), None).unwrap());
    let app = TestApp::with("localhost", "", vec![client]).await;
    app.send("1", "look").await;
    app.send("1", "again").await;
    for received in &model.requests()[1..] {
        assert!(received.body.to_string().contains("EqQBCgIYAhIM"), "{}", received.body);
    }
    assert_eq!(app.request(Method::GET, "/api/chats/1").send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_ids_are_unique_in_a_chat() {
    let (app, model) = with([
        calls(&[("bash", r#"{"command":"true"}"#)]),
        calls(&[("bash", r#"{"command":"true"}"#)]),
        text("Done."),
        calls(&[("bash", r#"{"command":"true"}"#)]),
        text("Done again."),
    ])
    .await;
    app.send("1", "do it").await;
    app.send("1", "again").await;
    let received = model.requests().pop().unwrap().body;
    let messages = received["messages"].as_array().unwrap();
    let called = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let ids: HashSet<_> = called.map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3, "{received:#}");
    assert!(ids.iter().all(|id| id.len() <= 40), "{ids:?}");
    let answered: HashSet<_> =
        messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(answered, ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_steps_are_stored_during_the_turn() {
    let (app, _model) = with([
        calls(&[("bash", r#"{"command":"echo done"}"#)]),
        Reply::stream(chunk(json!({ "content": "And n" }), None)).then(Step::StaySilent),
    ])
    .await;
    let mut reported = Chunks::new(app.say("1", "go").send().await.unwrap());
    while reported.next().await.unwrap()["type"] != "text-delta" {}
    let (_, chat) = app.get("/api/chats/1").await;
    assert_eq!(chat["running"], true);
    assert_eq!(chat["messages"][1]["parts"][1]["output"]["stdout"], "done\n");
    assert_eq!(chat["turnId"], chat["messages"][1]["id"]);
    let lost = chat["messages"][1]["parts"].as_array().unwrap().last().unwrap();
    assert_eq!(lost["type"], "data-failed", "what is shown if the app ends now");
    app.stop("1").await;
    until("the rest is stored", || async {
        let (_, chat) = app.get("/api/chats/1").await;
        chat["messages"][1]["parts"][3]["text"] == "And n" && chat["messages"].as_array().unwrap().len() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_ends_silently_after_its_tools_gets_one_more_request() {
    let call = || calls(&[("bash", r#"{"command":"true"}"#)]);
    let (app, model) = with([call(), text(""), text("It is done."), call(), text(""), text("")]).await;
    let reported = app.send("1", "do it").await;
    assert_eq!(text_of(&reported), "It is done.");
    let received = model.requests().remove(2).body;
    assert_eq!(
        received["messages"].as_array().unwrap().last().unwrap()["content"],
        "Say in a few words what came of that."
    );
    let reported = app.send("1", "again").await;
    assert_eq!(reported.last().unwrap()["finishReason"], "stop");
    assert_eq!(model.requests().len(), 6);
}
