//! The page in a real browser, with the server and its sandboxes.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use serde_json::json;
use test_daemon::TOKEN;

use crate::scripted_model::{Reply, ScriptedModel};
use crate::test_app::TestApp;
use crate::turns::{calls, text};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web");

/// The reason why the page cannot be tested here, if any.
fn missing() -> Option<&'static str> {
    let is_there = |path: &str| Path::new(PAGE).join(path).exists();
    match () {
        () if !is_there("dist/index.html") => Some("the page is not built: make web"),
        () if !is_there("node_modules/puppeteer-core") => {
            Some("the page's packages are not installed: make web")
        }
        () if !Path::new("/usr/bin/chromium").exists() => Some("there is no chromium"),
        () => None,
    }
}

/// For the first line of a story that needs the page and a browser. Prints why the story is skipped.
pub(crate) fn is_skipped() -> bool {
    let Some(reason) = missing() else { return false };
    test_daemon::skip(reason);
    true
}

fn script() -> [Reply; 5] {
    let page = json!({ "path": "site/index.html", "content": "<!doctype html><h1>Made by a model</h1>" })
        .to_string();
    let serve =
        json!({ "command": "cd site && (python3 -m http.server 3000 >/dev/null 2>&1 &)" }).to_string();
    [
        calls(&[("writeFile", &page)]),
        calls(&[("bash", &serve)]),
        calls(&[("sandboxUrl", r#"{"port":3000}"#)]),
        text("There it is."),
        text("<img src=x onerror=window.__xss=1>[x](javascript:window.__xss=1) harmless"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_works_with_the_page() {
    if is_skipped() {
        return;
    }
    let model = ScriptedModel::start(script()).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    let local = TestApp::with("localhost", "max_concurrent_sandboxes = 10", vec![client]).await;
    let lan = TestApp::with("lan", "", Vec::new()).await;
    let listed = TestApp::with_docker("network_mode = 'allowlist'").await;
    run_script("story", &[&local.base, &lan.base, &listed.base, TOKEN]).await;
}

/// Runs a script of `web/e2e` in the browser, with a directory for screenshots as its last argument.
#[expect(clippy::print_stderr, reason = "it prints measurements")]
pub(crate) async fn run_script(script: &str, args: &[&str]) {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    std::fs::create_dir_all(&pictures).unwrap();
    let mut node = Command::new("node");
    node.current_dir(PAGE).arg(format!("e2e/{script}.mjs")).args(args).arg(pictures);
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || node.output()).await.unwrap().unwrap();
    let output = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{output}");
    eprintln!("{output}");
}
