//! Models that make mistakes, fail or never end, and lost sandboxes.

use chat::turn::MAX_TURN_BYTES;
use serde_json::json;
use test_daemon::{Daemon, until};

use crate::browser_cable::Cable;
use crate::scripted_model::{Reply, Step};
use crate::test_app::{Chunks, TestApp};
use crate::turns::{calls, chunk, of_type, text, text_of, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_models_mistakes_are_reported_to_it() {
    let (app, model) = with([
        calls(&[
            ("bash", "{\"command\":"),
            ("format_disk", "{}"),
            ("bash", r#"{"cmd":"ls"}"#),
            ("sandboxUrl", r#"{"port":22}"#),
        ]),
        text("Sorry."),
    ])
    .await;
    let reported = app.send("1", "go").await;
    assert_eq!(text_of(&reported), "Sorry.");
    let words: Vec<_> = of_type(&reported, "tool-output-error")
        .iter()
        .map(|it| it["errorText"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(words.len(), 4, "{words:?}");
    assert!(words[0].contains("JSON") && words[1].contains("no tool `format_disk`"), "{words:?}");
    assert!(words[2].contains("`cmd`") && words[3].contains("22"), "{words:?}");
    let (_, kept) = app.get("/api/chats/1").await;
    let states: Vec<_> = kept["messages"][1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| part["state"].as_str())
        .collect();
    assert_eq!(states, ["output-error"; 4]);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_loop_ends() {
    let endless = (0..25).map(|_| calls(&[("bash", r#"{"command":"true"}"#)]));
    let (app, model) = with(endless).await;
    let reported = app.send("1", "go on for ever").await;
    assert_eq!(model.requests().len(), 20);
    assert!(text_of(&reported).contains("20 steps"));
    assert_eq!(reported.last().unwrap()["finishReason"], "other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_error_is_reported_and_the_text_before_it_kept() {
    let (app, _model) = with([
        Reply::stream(chunk(json!({ "content": "Half an ans" }), None)).then(Step::HangUp),
        Reply::stream(
            chunk(json!({ "content": "x" }), None) + "data: {\"error\":{\"message\":\"overloaded\"}}\n\n",
        ),
        Reply::stream("data: rubbish\n\n"),
        Reply::json(500, &json!({ "error": { "message": "no" } })),
        text("Well again."),
    ])
    .await;
    for (question, wanted) in [
        ("1", "ended before it was complete"),
        ("2", "overloaded"),
        ("3", "sent an invalid answer"),
        ("4", "500"),
    ] {
        let reported = app.send("1", question).await;
        let error = of_type(&reported, "error");
        assert!(error[0]["errorText"].as_str().unwrap().contains(wanted), "{wanted}: {reported:?}");
        assert_eq!(reported.last().unwrap()["finishReason"], "error");
    }
    assert_eq!(text_of(&app.send("1", "5").await), "Well again.");
    let (_, kept) = app.get("/api/chats/1").await;
    let parts = &kept["messages"][1]["parts"];
    assert_eq!(parts[1]["text"], "Half an ans");
    assert_eq!(parts[2]["type"], "data-failed");
    assert!(
        parts[2]["data"]["text"].as_str().unwrap().contains("ended before it was complete"),
        "it says so when it is read again"
    );
}

/// As the AI SDK's client does, which stops reading a stream at the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_retry_at_once_after_an_error() {
    const TIMES: usize = 20;
    let fault = || Reply::stream("data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
    let (app, _model) = with((0..TIMES).map(|_| fault())).await;
    for _ in 0..TIMES {
        let response = app.say("1", "go").send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        let mut reported = Chunks::new(response);
        while reported.next().await.unwrap()["type"] != "error" {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_is_ended_and_its_beginning_kept() {
    let words = chunk(json!({ "content": "word ".repeat(20_000) }), None);
    let (app, _model) = with([Reply::stream("").then(Step::Repeat(words.into(), 1000))]).await;
    let reported = app.send("1", "go on").await;
    let error = of_type(&reported, "error")[0]["errorText"].as_str().unwrap();
    assert_eq!(error, format!("the model's answer is longer than {MAX_TURN_BYTES} bytes"));
    let (_, chat) = app.get("/api/chats/1").await;
    let kept = chat["messages"][1]["parts"][1]["text"].as_str().unwrap().len();
    assert!((MAX_TURN_BYTES..MAX_TURN_BYTES + 200_000).contains(&kept), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_call_has_an_end() {
    let begun = |index, id: &str| {
        let function = json!({ "name": "bash", "arguments": "{\"command\":\"l" });
        chunk(json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }), None)
    };
    let (app, _model) = with([Reply::stream(begun(0, "a") + &begun(1, "b")).then(Step::HangUp)]).await;
    let reported = app.send("1", "go").await;
    let ids = |kind| of_type(&reported, kind).iter().map(|it| it["toolCallId"].clone()).collect::<Vec<_>>();
    assert_eq!(ids("tool-input-start"), ["a", "b"]);
    assert_eq!(ids("tool-input-error"), ["a", "b"], "{reported:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_pages_reject_is_not_accepted_as_input() {
    let odd = r#"{"command":"ls","deep":[{"__proto__":{"x":1}}]}"#;
    let (app, _model) =
        with([calls(&[("bash", odd), ("bash", r#"{"command":"ls"}"#)]), text("Sorry.")]).await;
    let reported = app.send("1", "go").await;
    assert_eq!(of_type(&reported, "tool-input-error").len(), 1);
    assert_eq!(of_type(&reported, "tool-input-available").len(), 1);
    assert_eq!(text_of(&reported), "Sorry.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_keeps_its_output_when_its_daemon_is_lost() {
    let daemon = Daemon::start().await;
    let cable = Cable::to(&daemon.base).await;
    let app = TestApp::by_way_of(&cable.base(), daemon, Vec::new()).await;
    let mut reported = Chunks::new(app.say("1", "/bash echo begun; exec sleep 60").send().await.unwrap());
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    drop(cable);
    let mut last = json!(null);
    while let Some(chunk) = reported.next().await {
        if chunk["type"] == "tool-output-available" {
            last = chunk["output"].clone();
        }
    }
    assert_eq!((&last["stdout"], &last["exitCode"]), (&json!("begun\n"), &json!(255)));
    let words = last["stderr"].as_str().unwrap();
    assert!(
        words.contains("broken off") && words.contains("sandboxd") && words.contains("running"),
        "{words}"
    );
    until("the gates have noticed", || async { app.get("/api/app").await.1["tools"]["isPassing"] == true })
        .await;
    let reported = app.send("1", "/bash echo").await;
    let words = of_type(&reported, "tool-output-error")[0]["errorText"].as_str().unwrap().to_owned();
    assert!(words.contains("no tools for this chat at present: "), "{words}");
}
