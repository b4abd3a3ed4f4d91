//! The tool for models.

use sandbox_api::sandbox::ListSandboxes;
use serde_json::json;
use test_git::GitServer;

use super::home;
use crate::support::harness::Daemon;
use crate::surfaces::mcp_client::Mcp;

const TOOL: &str = "repository_bash";

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_a_repository_without_a_sandbox_of_its_own() {
    let Some(server) = GitServer::start().await else { return };
    let setup = "seq 9000 >many; echo one >file; git add .; git commit -qm x; git tag v1.0.0";
    server.repository("owner/name", setup).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let client = Mcp::of(&daemon);

    let arguments = json!({ "repository": "owner/name", "version": "1.0.0", "command": "cat file; exit 4" });
    let called = client.call(TOOL, arguments).await;
    assert!(!called.is_error, "{}", called.text);
    assert_eq!(called.structured["stdout"], "one\n");
    assert_eq!((&called.structured["exitCode"], &called.structured["reason"]), (&json!(4), &json!("exited")));
    let commit = called.structured["resolvedRef"].as_str().unwrap();
    let text = format!("one\n[exit code 4]\n[https://git.example/owner/name.git at {commit}, version 1.0.0]");
    assert_eq!(called.text, text);

    let output = json!({ "keep": "tail", "maxChars": 100 });
    let long = json!({ "repository": "owner/name", "command": "cat many", "output": output });
    let cut = client.result(TOOL, long).await;
    assert_eq!(cut["truncated"], true);
    assert!(cut["stdout"].as_str().unwrap().ends_with("\n9000\n"), "{cut}");
    let whole = format!("tail -n 1 {}; wc -l <{0}", cut["outputPath"].as_str().unwrap());
    let whole = client.result(TOOL, json!({ "repository": "owner/name", "command": whole })).await;
    assert_eq!(whole["stdout"], "9000\n9000\n");

    assert!(
        client.result(TOOL, json!({ "repository": "owner/name", "command": "echo two >file" })).await["exitCode"]
            != 0
    );
    assert_eq!(server.fetches(), 1);
    let sandboxes = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(sandboxes.len(), 1, "the one of the repository");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_a_host_do_not_see_what_the_commands_of_others_have_left() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo one >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let [ann, ben] = ["ann", "ben"].map(|user| Mcp::of(&daemon).with("x-sandbox-user", user));
    let arguments = |command: &str| json!({ "repository": "owner/name", "command": command });
    let write = "echo secret >/tmp/left; seq 9000 | tee /tmp/all; hostname";
    let written = ann.result(TOOL, arguments(write)).await;
    let output = written["outputPath"].as_str().unwrap();
    let read = format!("cat /tmp/left {output} 2>&1 | head -c 300");
    let of_ann = ann.result(TOOL, arguments(&read)).await;
    assert!(of_ann["stdout"].as_str().unwrap().starts_with("secret\n1\n2\n"), "{of_ann}");
    let of_ben = ben.result(TOOL, arguments(&read)).await;
    assert_eq!(of_ben["stdout"].as_str().unwrap().matches("No such file").count(), 2, "{of_ben}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_explained_to_the_model() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo one >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let client = Mcp::of(&daemon);
    for (arguments, part) in [
        (json!({ "command": "true" }), "repository"),
        (json!({ "repository": "owner/nothing", "command": "true" }), "owner/nothing"),
        (json!({ "repository": "owner/name", "ref": "nothing", "command": "true" }), "nothing"),
        (json!({ "repository": "owner/name", "version": "9.9.9", "command": "true" }), "9.9.9"),
        (json!({ "repository": "owner/name", "ref": "a", "version": "1", "command": "true" }), "version"),
        (json!({ "repository": "owner/name", "command": "true", "sandbox": "mine" }), "sandbox"),
        (
            json!({ "repository": "owner/name", "command": "true", "output": { "maxChars": 0 } }),
            "output.maxChars",
        ),
    ] {
        let failure = client.failure(TOOL, arguments.clone()).await;
        assert!(failure.contains(part), "{arguments}: {failure}");
    }
    daemon.stop().await;
}
