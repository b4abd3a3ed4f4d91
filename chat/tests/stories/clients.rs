//! Published clients: every major version of the AI SDK understands the stream.

use std::path::Path;
use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use serde_json::json;
use test_daemon::packages::{NpmPackages, run};
use test_daemon::until;

use crate::scripted_model::{Reply, ScriptedModel};
use crate::test_app::TestApp;

/// The major versions, installed under separate names.
const CLIENTS: [&str; 3] = ["ai5@npm:ai@5.0.277", "ai6@npm:ai@6.0.326", "ai7@npm:ai@7.0.173"];

/// The newest needs Node 22, which is installed beside an older one.
const NODE: &str = "22.19.0";

const SCRIPT: &str = include_str!("clients.mjs");

fn clients() -> Option<NpmPackages> {
    NpmPackages::install(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("ai-npm"), &CLIENTS, Some(NODE))
}

fn text() -> Reply {
    let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": "Here it is." }, "finish_reason": "stop" }] });
    Reply::stream(format!("data: {chunk}\n\ndata: [DONE]\n\n"))
}

fn fault() -> Reply {
    Reply::stream("data: {\"error\":{\"message\":\"overloaded\"}}\n\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_major_of_the_ai_sdk_reads_the_stream() {
    let Some(packages) = tokio::task::spawn_blocking(clients).await.unwrap() else {
        test_daemon::skip(format!("{CLIENTS:?} cannot be installed here"));
        return;
    };
    let replies = CLIENTS.iter().flat_map(|_| [text(), fault()]);
    let model = ScriptedModel::start(replies).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    let app = TestApp::with("localhost", "", vec![client]).await;
    for major in ["5", "6", "7"] {
        let mut client = packages.script("story.mjs", SCRIPT);
        client.args([major, &app.base, major]);
        let (is_passed, output) = run(client).await;
        assert!(is_passed && output.contains("as the AI SDK"), "major {major}: {output}");
        let path = format!("/api/chats/{major}");
        until("its command has ended", || async { app.get(&path).await.1["running"] == false }).await;
        let (_, kept) = app.get(&path).await;
        let last = kept["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["parts"][1]["output"]["exitCode"], 130, "{last}");
    }
}
