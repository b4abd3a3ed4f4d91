//! What a model sees of files with the values of secret variables.

use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use serde_json::json;

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

const KEY: &str = "sk-0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_returns_a_secret_that_is_in_a_file() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("secrets");
    client.result("sandbox_open", json!({})).await;
    let opened = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.remove(0);
    daemon.client.delete(&opened.sandbox_id).await.unwrap();
    let request = CreateSandbox {
        session_key: opened.session_key,
        env: Some([("KEY".to_owned(), KEY.to_owned())].into()),
        secret_env: Some(vec!["KEY".into()]),
        ..CreateSandbox::default()
    };
    daemon.client.create_or_reconnect(&request).await.unwrap();

    client.output("echo \"key=$KEY\" > .env; mkdir -p skills/a; printf -- '---\\nname: a\\ndescription: d\\n---\\n%s' $KEY > skills/a/SKILL.md").await;
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
}
