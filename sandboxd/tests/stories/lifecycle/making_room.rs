//! Eviction when a limit is reached. The least recently used running sandbox is parked, or the sandbox that was parked
//! first is deleted. A sandbox in use is never evicted.

use std::time::Duration;

use bollard::query_parameters::KillContainerOptions;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::SandboxState;
use sandboxd::model::layout::container_name;
use tokio::time::{Instant, sleep};

use crate::support::harness::{Daemon, Home, docker, script, until};

async fn state(daemon: &Daemon, sandbox: &SandboxId) -> SandboxState {
    daemon.client.get(sandbox).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_recently_used_idle_sandbox_is_parked() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "3")).await;
    let busy = daemon.sandbox("chat:busy").await;
    let younger = daemon.sandbox("chat:younger").await;
    let older = daemon.sandbox("chat:older").await;
    let command = daemon.client.start(&busy, &script("sleep 300")).await.unwrap().command_id;
    daemon.output(&older, "echo kept > file").await;
    // Used last, although it was created before the other.
    daemon.output(&younger, "true").await;

    let newcomer = daemon.sandbox("chat:newcomer").await;
    for (sandbox, wanted) in [
        (&busy, SandboxState::Running),
        (&younger, SandboxState::Running),
        (&older, SandboxState::Parked),
        (&newcomer, SandboxState::Running),
    ] {
        assert_eq!(state(&daemon, sandbox).await, wanted, "{sandbox}");
    }
    // To wake it, another one is parked. The busy one has been without a request for the longest, but keeps running.
    assert_eq!(daemon.output(&older, "cat file").await, "kept\n");
    assert_eq!(state(&daemon, &younger).await, SandboxState::Parked);
    assert_eq!(state(&daemon, &busy).await, SandboxState::Running);
    daemon.client.kill(&busy, &command, &Default::default()).await.unwrap();
    daemon.stop().await;
}

/// Size of the file in each workspace, and a budget that two workspaces fit into and three do not.
const WORKSPACE_MIB: u64 = 100;
const BUDGET_MB: &str = "270";

/// The daemon checks the budget once a minute.
const NEXT_CHECK: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn over_the_disk_budget_only_the_oldest_parked_sandboxes_are_deleted() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_DISK_BUDGET_MB", BUDGET_MB)).await;
    let mut sandboxes = Vec::new();
    for key in ["running", "third", "first", "second"] {
        let sandbox = daemon.sandbox(&format!("chat:{key}")).await;
        daemon.output(&sandbox, &format!("head -c {WORKSPACE_MIB}M /dev/urandom > file; sync")).await;
        sandboxes.push(sandbox);
    }
    let [running, third, first, second] = &sandboxes[..] else { unreachable!() };
    // Parked without its agent, which would have reported its size.
    docker().await.kill_container(&container_name(first), None::<KillContainerOptions>).await.unwrap();
    until("it is parked", || async { state(&daemon, first).await == SandboxState::Parked }).await;
    for sandbox in [second, third] {
        daemon.client.park(sandbox, false).await.unwrap();
    }

    let deadline = Instant::now() + NEXT_CHECK;
    let is_gone = async |sandbox: &SandboxId| daemon.client.get(sandbox).await.is_err();
    while !is_gone(second).await {
        assert!(Instant::now() < deadline, "the budget is still exceeded");
        sleep(Duration::from_millis(50)).await;
    }
    assert!(is_gone(first).await);
    assert_eq!(state(&daemon, third).await, SandboxState::Parked, "a sandbox within the budget is kept");
    // Used least recently of all, but it is not parked.
    assert_eq!(state(&daemon, running).await, SandboxState::Running);
    for sandbox in [third, running] {
        let size = daemon.output(sandbox, "stat -c %s file").await;
        assert_eq!(size, format!("{}\n", WORKSPACE_MIB << 20));
    }
    // The session of a deleted sandbox gets a new one.
    let again = daemon.sandbox("chat:first").await;
    assert_ne!(&again, first);
    assert_eq!(daemon.output(&again, "ls").await, "");
    daemon.stop().await;
}
