//! A daemon that is killed while files and values become those of a snapshot.

use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, WorkspaceSource};
use sandbox_api::snapshot::{CheckSnapshots, ForkSandbox, MakeSnapshot, RestoreSnapshot};
use sandbox_client::Client;

use super::values::{used_bytes, values_of};
use crate::support::harness::{DaemonProcess, Home, free_port, outcome, script, until};

/// The points at which the daemon is killed, and whether the sandbox has the files and values of the snapshot afterwards.
/// `None` if the request is not a restore.
const SEAMS: [(&str, Option<bool>); 9] = [
    ("snapshot.chunks", None),
    ("snapshot.manifest", None),
    ("seed.act", None),
    ("seed.values", None),
    ("fork.created", None),
    ("restore.checkpoint", Some(false)),
    ("restore.intent", Some(true)),
    ("restore.act", Some(true)),
    ("restore.outcome", Some(true)),
];

async fn run(client: &Client, sandbox: &SandboxId, text: &str) -> String {
    outcome(client.run(sandbox, &script(text)).await.unwrap()).await.text()
}

/// Sets the file and the value of a sandbox. The value has as many chunks as several files.
async fn set(client: &Client, sandbox: &SandboxId, text: &str) {
    run(client, sandbox, &format!("printf {text} > state")).await;
    client.put_value(sandbox, "state", text.to_owned()).await.unwrap();
    client.put_value(sandbox, text, vec![1; 300_000]).await.unwrap();
}

/// The file and the values of a sandbox, which must belong together.
async fn state_of(client: &Client, sandbox: &SandboxId) -> String {
    let text = run(client, sandbox, "cat state").await;
    let values = values_of(client, sandbox).await;
    assert_eq!(values["state"].0, text.as_bytes());
    assert!(values.contains_key(&text), "{:?}", values.keys());
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_values_are_those_of_one_snapshot_after_a_kill() {
    let home = Home::new();
    let seam_file = home.path().join("seam");
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    let create = |session_key: &str, workspace| CreateSandbox {
        session_key: session_key.into(),
        workspace,
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&create("chat:1", None)).await.unwrap().sandbox_id;
    for (seam, is_restored) in SEAMS {
        let client = &daemon.client;
        set(client, &sandbox, "old").await;
        client.delete_value(&sandbox, "new").await.unwrap();
        let made = client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap().snapshot;
        set(client, &sandbox, "new").await;
        client.delete_value(&sandbox, "old").await.unwrap();
        let snapshot_id = made.snapshot_id;
        std::fs::write(&seam_file, seam).unwrap();
        // The request gets no response.
        let answered = match seam.split('.').next() {
            Some("restore") => {
                let body = RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None };
                client.restore_snapshot(&sandbox, &body).await.is_ok()
            }
            Some("seed") => {
                let workspace = Some(WorkspaceSource::snapshot(snapshot_id.clone()));
                client.create_or_reconnect(&create("chat:2", workspace)).await.is_ok()
            }
            Some("fork") => {
                let fork = ForkSandbox { session_keys: vec!["chat:2".into()] };
                client.fork(&sandbox, &fork).await.is_ok()
            }
            _ => client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.is_ok(),
        };
        assert!(!answered, "{seam}");
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        daemon = DaemonProcess::start(&home, port).await;
        let client = &daemon.client;
        let expected = if is_restored == Some(true) { "old" } else { "new" };
        assert_eq!(state_of(client, &sandbox).await, expected, "{seam}");
        until(&format!("{seam}: only the original is left"), async || {
            client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len() == 1
        })
        .await;
        // Two keys and two values.
        until(&format!("{seam}: the project is charged for its values"), async || {
            used_bytes(client, "default").await == 5 + 3 + 3 + 300_000
        })
        .await;
        let checked = client.check_snapshots(&CheckSnapshots::default()).await.unwrap();
        assert!(checked.ok, "{seam}: {checked:?}");
        let workspace = Some(WorkspaceSource::snapshot(snapshot_id));
        let copy = client.create_or_reconnect(&create("chat:copy", workspace)).await.unwrap().sandbox_id;
        assert_eq!(state_of(client, &copy).await, "old", "{seam}");
        client.delete(&copy).await.unwrap();
    }
    daemon.kill().await;
}
