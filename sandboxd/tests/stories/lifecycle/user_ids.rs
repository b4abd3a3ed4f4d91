//! Which user id a sandbox gets, on a machine with other sandboxes.

use std::collections::HashMap;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions};
use sandbox_api::SandboxId;

use crate::support::harness::{Daemon, docker};

async fn user_of(daemon: &Daemon, key: &str) -> u32 {
    let sandbox = daemon.sandbox(key).await;
    daemon.output(&sandbox, "id -u").await.trim().parse().unwrap()
}

/// The kernel counts the processes of a user id across containers, so a process limit would be reached by those of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_id_of_another_daemons_sandbox_is_not_used() {
    let daemon = Daemon::start().await;
    let first = user_of(&daemon, "chat:1").await;
    let home = daemon.stop().await;
    // The next one in the range. After the last of it comes the first.
    let next = if first < 21_998 { first + 1 } else { 20_000 };
    let other = SandboxId::random().unwrap();
    let labels = [
        ("sandboxd.instance", "0123456789abcdef".to_owned()),
        ("remcochat.sandboxId", other.to_string()),
        ("sandboxd.uid", next.to_string()),
    ];
    let labels: HashMap<_, _> = labels.map(|(name, value)| (name.to_owned(), value)).into();
    let name = format!("remcochat-sandbox-{other}");
    let body = ContainerCreateBody {
        image: Some("remcochat-sandbox:node24".into()),
        labels: Some(labels),
        ..Default::default()
    };
    let engine = docker().await;
    let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
    engine.create_container(Some(options), body).await.unwrap();

    let daemon = Daemon::start_in(home).await;
    let users = [user_of(&daemon, "chat:1").await, user_of(&daemon, "chat:2").await];
    let force = RemoveContainerOptions { force: true, ..Default::default() };
    engine.remove_container(&name, Some(force)).await.unwrap();
    assert_eq!(users[0], first);
    assert!(users[1] != next && users[1] != first, "{users:?}");
    daemon.stop().await;
}
