//! Published clients: every major version of the AI SDK understands the stream.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use serde_json::json;
use test_daemon::until;

use crate::scripted_model::{Reply, ScriptedModel};
use crate::test_app::TestApp;

/// The major versions, installed under separate names.
const CLIENTS: [&str; 3] = ["ai5@npm:ai@5.0.277", "ai6@npm:ai@6.0.326", "ai7@npm:ai@7.0.173"];

/// The newest needs Node 22, which is installed beside an older one.
const NODE: &str = "22.19.0";

const SCRIPT: &str = include_str!("clients.mjs");

/// The directory of the clients and their Node, or `None` without npm or the registry.
fn clients() -> Option<(PathBuf, PathBuf)> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ai-npm");
    std::fs::create_dir_all(&home).unwrap();
    let node = format!("node-linux-{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" });
    let quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0"];
    let mut npm = Command::new("npm");
    npm.args(["install", "--prefix"]).arg(&home).args(quiet).args(CLIENTS).arg(format!("{node}@{NODE}"));
    let installed = npm.output().is_ok_and(|output| output.status.success());
    let program = home.join("node_modules").join(node).join("bin/node");
    installed.then_some((home, program))
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
    let Some((home, node)) = tokio::task::spawn_blocking(clients).await.unwrap() else {
        test_daemon::skip(format!("{CLIENTS:?} cannot be installed here"));
        return;
    };
    std::fs::write(home.join("story.mjs"), SCRIPT).unwrap();
    let replies = CLIENTS.iter().flat_map(|_| [text(), fault()]);
    let model = ScriptedModel::start(replies).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    let app = TestApp::with("localhost", "", vec![client]).await;
    for major in ["5", "6", "7"] {
        let (home, node, base) = (home.clone(), node.clone(), app.base.clone());
        let run =
            move || Command::new(node).current_dir(home).args(["story.mjs", major, &base, major]).output();
        let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
        let output = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success() && output.contains("as the AI SDK"), "major {major}: {output}");
        let path = format!("/api/chats/{major}");
        until("its command has ended", || async { app.get(&path).await.1["running"] == false }).await;
        let (_, kept) = app.get(&path).await;
        let last = kept["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["parts"][1]["output"]["exitCode"], 130, "{last}");
    }
}
