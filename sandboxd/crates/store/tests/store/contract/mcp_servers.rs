//! Wrapped servers.

use sandboxd_model::mcp::{McpServerRecord, McpServerSpec};

use super::records::sandbox_id;
use super::{TestDatabase, new_store};

pub(crate) async fn a_server_is_written_replaced_and_deleted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let (mut one, two) = (server("a"), server("b"));
    store.put_mcp_server(&two).await.unwrap();
    store.put_mcp_server(&one).await.unwrap();
    (one.version, one.tools_hash) = (Some("1.2.3".into()), Some("digest".into()));
    one.tools = [("tool".to_owned(), "digest".to_owned())].into();
    store.put_mcp_server(&one).await.unwrap();
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.mcp_servers().await.unwrap(), [one.clone(), two.clone()]);

    store.forget_mcp_server(&one.sandbox, "a").await.unwrap();
    store.forget_mcp_server(&one.sandbox, "a").await.unwrap();
    assert_eq!(store.mcp_servers().await.unwrap(), [two]);
}

fn server(name: &str) -> McpServerRecord {
    let spec = McpServerSpec {
        cmd: "python3".into(),
        args: vec!["server.py".into(), "--x".into()],
        cwd: Some("dir".into()),
        env: [("KEY".to_owned(), "value".to_owned())].into(),
        unpinned: true,
        allow_elicitation: false,
        allow_sampling: true,
    };
    McpServerRecord {
        sandbox: sandbox_id(1),
        name: name.to_owned(),
        spec,
        version: None,
        tools_hash: None,
        tools: Default::default(),
        created_at_ms: 7,
    }
}
