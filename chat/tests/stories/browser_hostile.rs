//! The page with hostile or unusual input: output, names, texts and very fast users.

use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use serde_json::json;

use crate::browser::{is_skipped, run_script};
use crate::scripted_model::{Reply, ScriptedModel};
use crate::test_app::TestApp;
use crate::turns::{calls, text};

/// Text that an attacker makes a model write.
const WORDS: &str = "<img src=x onerror=window.__xss=1> <script>window.__xss=1</script>\n\n\
    <iframe srcdoc='<script>parent.__xss=1</script>'></iframe> <svg onload=window.__xss=1></svg>\n\n\
    [one](javascript:window.__xss=1) [two](JaVaScRiPt:window.__xss=1) [three](data:text/html,<script>opener.__xss=1</script>)\n\n\
    [four](vbscript:x) <javascript:window.__xss=1> ![five](javascript:window.__xss=1) ![six](https://elsewhere.invalid/pixel.png)\n\n\
    [seven]: javascript:window.__xss=1\n[seven] [eight](&#106;avascript:window.__xss=1) [nine](https://example.org)\n\n\
    ```html\n<img src=x onerror=window.__xss=1>\n```\n\nharmless";

/// A page in the preview that tries to leave its frame.
const ESCAPE: &str = "<!doctype html><h1>Wants out</h1><script>\
    for (const way of [() => { parent.__xss = 1 }, () => { parent.document.title = 'mine' }, () => { top.location = 'about:blank' }, \
    () => parent.fetch('/api/chats'), () => { parent.localStorage.clear() }, () => { window.name = parent.document.body.textContent }]) \
    try { way() } catch {}\
    parent.postMessage({ type: 'finish' }, '*'); document.body.append('done')</script>";

fn script() -> [Reply; 7] {
    let page = json!({ "path": "evil.html", "content": "<script>window.__xss=1</script><img src=x onerror=window.__xss=1>" });
    let bad = json!({ "command": "echo \"<img src=x onerror=window.__xss=1>\"" });
    let escape = json!({ "path": "site/index.html", "content": ESCAPE });
    let serve =
        json!({ "command": "mkdir -p site; cd site && (python3 -m http.server 3000 >/dev/null 2>&1 &)" });
    let error = json!({ "error": { "message": "<img src=x onerror=window.__xss=1> overloaded" } });
    [
        calls(&[("writeFile", &page.to_string())]),
        calls(&[
            ("readFile", r#"{"path":"evil.html"}"#),
            ("bash", &bad.to_string()),
            ("<img src=x onerror=window.__xss=1>", "{}"),
            ("sandboxUrl", r#"{"port":22}"#),
        ]),
        text(WORDS),
        Reply::json(500, &error),
        calls(&[("writeFile", &escape.to_string()), ("bash", &serve.to_string())]),
        calls(&[("sandboxUrl", r#"{"port":3000}"#)]),
        text("Look at it."),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_content_neither_runs_nor_misleads() {
    if is_skipped() {
        return;
    }
    let model = ScriptedModel::start(script()).await;
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(model.base.clone(), None).unwrap());
    let app = TestApp::with("localhost", "max_concurrent_sandboxes = 10", vec![client]).await;
    run_script("hostile", &[&app.base]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_actions_and_two_windows_lose_nothing() {
    if is_skipped() {
        return;
    }
    let app = TestApp::with("localhost", "max_concurrent_sandboxes = 10", Vec::new()).await;
    run_script("haste", &[&app.base]).await;
}
