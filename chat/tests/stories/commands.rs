//! Commands of the user, which need no model.

use std::time::Instant;

use sandbox_api::sandbox::ListSandboxes;
use serde_json::{Value, json};
use test_daemon::until;

use crate::test_app::{Chunks, TestApp, answer};

fn types(reported: &[Value]) -> Vec<&str> {
    reported.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_streams_before_it_ends() {
    let app = TestApp::start().await;
    let response = app
        .say("1", "/bash echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3")
        .send()
        .await
        .unwrap();
    let header = |name: &str| response.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
    assert_eq!(header("x-remcochat-bash-tools-enabled").as_deref(), Some("1"));
    assert_eq!(header("x-remcochat-bash-tools").as_deref(), Some("readFile,writeFile,bash,sandboxUrl"));
    assert_eq!(header("x-vercel-ai-ui-message-stream").as_deref(), Some("v1"));
    let mut reported = Chunks::new(response);
    let (mut all, mut first_output) = (Vec::new(), false);
    while let Some(chunk) = reported.next().await {
        if chunk["output"]["stdout"] == "one\n" && !first_output {
            assert_eq!((&chunk["output"]["exitCode"], &chunk["preliminary"]), (&json!(-1), &json!(true)));
            // The command ends only after this file exists, so the output arrived before its end.
            let sandboxes = app.daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
            app.daemon.output(&sandboxes[0].sandbox_id, "touch go").await;
            first_output = true;
        }
        all.push(chunk);
    }
    assert!(first_output, "{all:?}");
    let last = all.iter().rev().find(|chunk| chunk["type"] == "tool-output-available").unwrap();
    assert_eq!(last["output"], json!({ "stdout": "one\ntwo\n", "stderr": "", "exitCode": 3 }));
    assert_eq!(last.get("preliminary"), None);
    let types = types(&all);
    assert_eq!(types[..2], ["data-chat", "start"]);
    assert_eq!(types[types.len() - 2..], ["finish-step", "finish"]);
    assert!(types.contains(&"data-sandbox"), "the page gets the progress of the sandbox: {types:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_the_command_and_keeps_its_output() {
    let app = TestApp::start().await;
    let mut reported = Chunks::new(app.say("1", "/bash echo begun; exec sleep 987.25").send().await.unwrap());
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    let (status, busy) = answer(app.say("1", "/bash echo other")).await;
    assert_eq!((status.as_u16(), busy["code"].as_str().unwrap()), (409, "busy"));
    app.stop("1").await;
    while let Some(chunk) = reported.next().await {
        assert_ne!(chunk["type"], "finish");
    }
    assert!(reported.is_done, "the stream ends with the answer");
    until("the answer is stored", || async {
        app.get("/api/chats/1").await.1["messages"].as_array().is_some_and(|it| it.len() == 2)
    })
    .await;
    let (_, chat) = app.get("/api/chats/1").await;
    let output = &chat["messages"][1]["parts"][1]["output"];
    assert_eq!((&output["stdout"], &output["exitCode"]), (&json!("begun\n"), &json!(130)));
    assert_eq!(chat["running"], false);
    let count = "/bash cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '987[.]25'";
    until("the command has ended", || async { app.output("1", count).await["stdout"] == "0\n" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_not_text_is_shown_with_replacements() {
    let app = TestApp::start().await;
    let output = app.output("1", "/bash printf 'a\\xff\\xc3b\\0c\\xf0\\x9f'; printf '\\xe2\\x82' >&2").await;
    let shown = json!({ "stdout": "a\u{fffd}\u{fffd}b\0c\u{fffd}", "stderr": "\u{fffd}", "exitCode": 0 });
    assert_eq!(output, shown);
    let (_, chat) = app.get("/api/chats/1").await;
    assert_eq!(chat["messages"][1]["parts"][1]["output"], shown, "it is stored as shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_output_is_sent_in_few_updates_and_counted() {
    let app = TestApp::start().await;
    app.send("1", "/bash true").await;
    let began = Instant::now();
    let reported = app.send("1", "/bash timeout 3 cat /dev/urandom | base64").await;
    let seconds = began.elapsed().as_secs_f64();
    let outputs: Vec<_> = reported.iter().filter(|chunk| chunk["type"] == "tool-output-available").collect();
    assert!((outputs.len() as f64) <= 8.0 * seconds + 2.0, "{} in {seconds} s", outputs.len());
    let last = &outputs.last().unwrap()["output"];
    assert!(last["stdoutTruncatedChars"].as_u64().unwrap() > 100_000, "{}", last["stdoutTruncatedChars"]);
    assert_eq!(last["stdout"].as_str().unwrap().chars().count(), 12_000);
}
