//! The disk budget is exceeded: the owner that takes the most loses files, in the project that takes the most.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use tokio::time::{Instant, sleep};

use super::client_of;
use crate::support::harness::{Daemon, Home, script};

/// The disks of the test exceed it by less than the one that is deleted.
const BUDGET_MB: &str = "370";

/// The daemon checks the budget once a minute.
const NEXT_CHECK: Duration = Duration::from_secs(120);

/// A parked sandbox with a file of this size.
async fn parked(client: &Client, key: &str, mib: u64) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let fill = script(&format!("head -c {mib}M /dev/urandom > file; sync"));
    let command = client.start(&sandbox, &fill).await.unwrap().command_id;
    assert_eq!(client.wait(&sandbox, &command, None).await.unwrap().exit_code, 0);
    client.park(&sandbox, false).await.unwrap();
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_disk_budget_the_owner_that_takes_the_most_loses_files() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_DISK_BUDGET_MB", BUDGET_MB)).await;
    let press = client_of(&daemon, "press", None, &["use"]).await;
    let [ann, bob] = ["ann", "bob"].map(|subject| client_of(&daemon, "lab", Some(subject), &["use"]));
    let (ann, bob) = (ann.await, bob.await);
    // `lab` takes the most, and in it `bob`, although the sandboxes of others were parked before.
    let of_press = parked(&press, "chat:1", 100).await;
    let of_ann = parked(&ann, "chat:1", 60).await;
    let first = parked(&bob, "chat:1", 120).await;
    let second = parked(&bob, "chat:2", 120).await;
    let deadline = Instant::now() + NEXT_CHECK;
    while bob.get(&first).await.is_ok() {
        assert!(Instant::now() < deadline, "the budget is still exceeded");
        sleep(Duration::from_millis(50)).await;
    }
    for (client, sandbox) in [(&press, &of_press), (&ann, &of_ann), (&bob, &second)] {
        assert!(client.get(sandbox).await.is_ok(), "{sandbox} was deleted");
    }
    daemon.stop().await;
}
