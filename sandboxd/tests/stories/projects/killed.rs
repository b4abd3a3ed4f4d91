//! What a project is charged after the daemon was killed in the middle of something: what there is, and nothing else.

use std::collections::BTreeMap;

use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_client::Client;

use crate::support::harness::{DaemonProcess, Home, free_port, script, until};

/// The points of a create, a park, a wake and a delete at which the daemon is killed.
const SEAMS: [&str; 13] = [
    "create.disk",
    "create.intent",
    "start.created",
    "start.started",
    "create.act",
    "create.outcome",
    "park.intent",
    "park.act",
    "wake.intent",
    "wake.act",
    "delete.intent",
    "remove.container",
    "delete.act",
];

async fn used(client: &Client) -> BTreeMap<String, u64> {
    let usage = client.project_usage("default").await.unwrap();
    usage.now.into_iter().map(|found| (found.quota, found.used)).collect()
}

/// Whether the charges are those of the sandboxes that are listed.
async fn is_correct(client: &Client) -> bool {
    let listed = client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let running: Vec<_> = listed.iter().filter(|sandbox| sandbox.state == SandboxState::Running).collect();
    let found = used(client).await;
    found["sandboxes"] == listed.len() as u64
        && found["diskMb"]
            == listed.iter().map(|sandbox| sandbox.resources.disk_mb.unwrap_or_default()).sum::<u64>()
        && found["runningSandboxes"] == running.len() as u64
        && found["memoryMb"]
            == running.iter().map(|sandbox| sandbox.resources.memory_mb.unwrap_or_default()).sum::<u64>()
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, sandbox_client::Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.map(|created| created.sandbox_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charges_after_a_kill_are_those_of_what_exists() {
    let home = Home::new();
    let seam_file = home.path().join("seam");
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    let kept = create(&daemon.client, "chat:kept").await.unwrap();
    // By default, it would end after 30 seconds.
    let sleep = StartCommand { timeout_ms: Some(600_000), ..script("sleep 600") };
    daemon.client.start(&kept, &sleep).await.unwrap();
    for seam in SEAMS {
        let client = &daemon.client;
        let target = create(client, "chat:target").await.unwrap();
        match seam.split('.').next() {
            Some("create" | "start") => client.delete(&target).await.map(drop).unwrap(),
            Some("wake") => client.park(&target, false).await.map(drop).unwrap(),
            _ => {}
        }
        std::fs::write(&seam_file, seam).unwrap();
        // The request gets no response.
        let _ = match seam.split('.').next() {
            Some("park") => client.park(&target, false).await.map(drop),
            Some("delete" | "remove") => client.delete(&target).await.map(drop),
            _ => create(client, "chat:target").await.map(drop),
        };
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        daemon = DaemonProcess::start(&home, port).await;
        let client = &daemon.client;
        until(&format!("{seam}: the charges are correct"), async || is_correct(client).await).await;
        let commands = async || used(client).await["commands"] == 1;
        until(&format!("{seam}: the running command is charged"), commands).await;
    }
    for key in ["chat:kept", "chat:target"] {
        let sandbox = create(&daemon.client, key).await.unwrap();
        daemon.client.delete(&sandbox).await.unwrap();
    }
    until("everything is given back", async || used(&daemon.client).await.values().all(|used| *used == 0))
        .await;
    daemon.kill().await;
}
