//! The profile with the tools of the crate `bash-tools`.

use serde_json::json;

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

#[tokio::test(flavor = "multi_thread")]
async fn chat_has_the_names_and_results_of_the_crate() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).with_profile("chat").in_session("chat").legacy().await;
    let written =
        client.result("writeFile", json!({ "path": "a/b.txt", "content": "one\ntwo\nthree\n" })).await;
    assert_eq!(written, json!({ "success": true }));
    let read = client.result("readFile", json!({ "path": "a/b.txt", "offset": 2, "limit": 1 })).await;
    assert_eq!(read, json!({ "content": "two\n[more lines follow: continue with offset 3]" }));
    let ran = client.result("bash", json!({ "command": "cat a/b.txt; echo e >&2; exit 3" })).await;
    assert_eq!(ran, json!({ "stdout": "one\ntwo\nthree\n", "stderr": "e\n", "exitCode": 3 }));
    let ran = client.result("bash", json!({ "command": "seq 100000" })).await;
    assert!(ran["stdout"].as_str().unwrap().ends_with("\n100000\n"));
    assert_eq!(ran["stdoutTruncatedChars"], 588_895 - 20_000);
    let url = client.result("sandboxUrl", json!({ "port": 3000 })).await["url"].clone();
    assert!(url.as_str().unwrap().starts_with("http://3000-"), "{url}");
    assert!(client.failure("readFile", json!({ "path": "missing" })).await.contains("missing"));
    daemon.stop().await;
}
