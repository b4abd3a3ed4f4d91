//! A lost database: the owners of sandboxes come back from the engine.

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use sandbox_client::Client;

use super::client_of;
use crate::support::harness::{Daemon, script};

#[tokio::test(flavor = "multi_thread")]
async fn equal_session_keys_of_two_projects_survive_the_loss_of_the_database() {
    let daemon = Daemon::start().await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let mut ids = Vec::new();
    let owners = [("lab", None), ("lab", Some("ann")), ("press", Some("ann"))];
    let mine = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    for (project, subject) in owners {
        let client = client_of(&daemon, project, subject, &["use"]).await;
        let created = client.create_or_reconnect(&request).await.unwrap();
        assert!(created.created, "{project} {subject:?}");
        let id = created.sandbox_id;
        client
            .put_file(&id, "whose.txt", format!("{project} {subject:?}"), Default::default())
            .await
            .unwrap();
        ids.push(id);
    }
    let parked = Client::new(&daemon.base, crate::support::harness::TOKEN).unwrap();
    assert_eq!(parked.get(&ids[2]).await.unwrap_err().code(), Some(ErrorCode::NotFound));

    let home = daemon.stop().await;
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::remove_file(home.path().join("state").join(name));
    }
    let daemon = Daemon::start_in(home).await;
    let projects = daemon.client.projects(None).await.unwrap().projects;
    let names: Vec<_> = projects.iter().map(|project| project.name.as_str()).collect();
    assert_eq!(names, ["default", "lab", "press"]);
    for ((project, subject), id) in owners.into_iter().zip(&ids) {
        let client = client_of(&daemon, project, subject, &["use"]).await;
        let found = client.create_or_reconnect(&request).await.unwrap();
        assert_eq!((&found.sandbox_id, found.created), (id, false), "{project} {subject:?}");
        let whose = client.read_file(id, "whose.txt").await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&whose), format!("{project} {subject:?}"));
        client.run(id, &script("true")).await.unwrap();
    }
    let all = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(all.iter().map(|sandbox| &sandbox.sandbox_id).collect::<Vec<_>>(), [&mine]);
    daemon.stop().await;
}
