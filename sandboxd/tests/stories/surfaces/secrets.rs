//! What a model sees of files with the values of secret variables.

use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use serde_json::json;

use super::mcp_client::Mcp;
use super::open_terminal::Chat;
use crate::support::harness::Daemon;

const KEY: &str = "sk-0123456789";

/// Replaces the only sandbox with one that has a secret variable.
async fn give_secret(daemon: &Daemon) {
    let opened = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.remove(0);
    daemon.client.delete(&opened.sandbox_id).await.unwrap();
    let request = CreateSandbox {
        session_key: opened.session_key,
        env: Some([("KEY".to_owned(), KEY.to_owned())].into()),
        secret_env: Some(vec!["KEY".into()]),
        ..CreateSandbox::default()
    };
    daemon.client.create_or_reconnect(&request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_returns_a_secret_that_is_in_a_file() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("secrets");
    client.result("sandbox_open", json!({})).await;
    give_secret(&daemon).await;
    client.output("echo \"key=$KEY\" > .env; mkdir -p skills/a; printf -- '---\\nname: a\\ndescription: d\\n---\\n%s' $KEY > skills/a/SKILL.md").await;
    // Of a long skill, only the beginning is shown, which ends within a value.
    let long =
        "mkdir skills/b; { head -c 65530 /dev/zero | tr '\\0' x; echo $KEY; seq 9999; } > skills/b/SKILL.md";
    client.output(long).await;
    let cut = client.call("skills", json!({ "name": "b" })).await;
    assert!(cut.text.contains("only the first") && !cut.text.contains("sk-"), "{}", cut.text.len());
    let handle = client.result("sandbox_open", json!({})).await["sandbox"].clone();
    let read = client.call("read", json!({ "path": ".env" })).await;
    assert_eq!(read.text, "key=[KEY]\n");
    assert_eq!(read.structured["fileBytes"], json!(4 + KEY.len() + 1));
    let edits = json!([{ "oldText": "key=", "newText": "KEY=" }]);
    let outcomes = [
        read,
        client.call("search", json!({ "text": "key" })).await,
        client.call("edit", json!({ "path": ".env", "edits": edits })).await,
        client.call("skills", json!({})).await,
        client.call("skills", json!({ "name": "a" })).await,
    ];
    let uri = format!("sandbox://{}/.env", handle.as_str().unwrap());
    let resource = client.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(resource["result"]["contents"][0]["text"], "KEY=[KEY]\n", "{resource}");
    for outcome in outcomes {
        assert!(!outcome.is_error, "{outcome:?}");
        assert!(!format!("{outcome:?}").contains("0123"), "{outcome:?}");
    }
    let boxsh = client.with_profile("boxsh").call("read", json!({ "path": ".env" })).await;
    assert!(boxsh.text.contains("KEY=[KEY]"), "{boxsh:?}");
    assert_eq!(boxsh.structured["truncated"], json!(false), "{boxsh:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_of_the_open_terminal_api_returns_one_either() {
    let daemon = Daemon::start().await;
    let chat = Chat::of(&daemon, "ann", "c1");
    chat.output("true").await;
    give_secret(&daemon).await;
    chat.output("echo \"key=$KEY\" > file").await;
    assert_eq!(chat.get("/files/read?path=file").await["content"], "key=[KEY]\n");
    assert_eq!(chat.get("/files/grep?query=key&path=.").await["matches"][0]["content"], "key=[KEY]");
    // What the user sees and downloads is the file.
    let shown = chat.send("GET", "/files/view?path=file").await;
    assert_eq!(String::from_utf8_lossy(&shown.body), format!("key={KEY}\n"));
}
