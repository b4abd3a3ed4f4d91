//! Terminals across broken connections, killed daemons and parking.

use std::time::Duration;

use bollard::query_parameters::TopOptions;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::layout::container_name;
use tokio::time::{Instant, sleep};

use crate::support::harness::{Daemon, DaemonProcess, Home, docker, free_port, skipped_under_gvisor, until};
use crate::support::screens::{Viewer, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_outlives_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let terminal = daemon.client.open_terminal(&sandbox, &Default::default()).await.unwrap().terminal_id;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("value=kept; for i in {1..5}; do echo before-$i; done\r").await;
    viewer.until_seen("before-5\r\n").await;
    daemon.kill().await;
    assert!(viewer.breaks().await, "a killed daemon sends no exit event");

    let daemon = DaemonProcess::start(&home, port).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.until_seen("before-1\r\nbefore-2\r\n").await;
    viewer.type_in("echo $value-still\r").await;
    viewer.until_seen("kept-still\r\n").await;
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(viewer.exit().await.2, EndReason::Lost);
    let gone = daemon.client.terminal(&sandbox, &terminal).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    daemon.kill().await;
}

/// Kills the process that carries the connection to the agent, on the host.
async fn break_link(sandbox: &SandboxId) {
    let options = TopOptions { ps_args: "-eo pid,args".into() };
    let listed = docker().await.top_processes(&container_name(sandbox), Some(options)).await.unwrap();
    let processes = listed.processes.unwrap();
    let dial = processes
        .iter()
        .find(|fields| fields[1].ends_with(" dial"))
        .expect("no process carries a connection");
    kill_process(Pid::from_raw(dial[0].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_loses_and_repeats_nothing_when_the_agents_connection_breaks() {
    if skipped_under_gvisor("the agent is reached through the engine here") {
        return;
    }
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_AGENT_TRANSPORT", "engine")).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("clear; for i in {1..600}; do echo n-$i; sleep 0.005; done; echo through\r").await;
    for at in [50, 150, 250] {
        viewer.until_seen(&format!("n-{at}\r\n")).await;
        break_link(&sandbox).await;
    }
    viewer.until_seen("n-600\r\nthrough\r\n").await;
    let seen = viewer.seen();
    let reported = seen
        .lines()
        .filter_map(|line| line.rsplit("n-").next().filter(|_| line.contains("n-"))?.parse().ok());
    let numbers: Vec<u32> = reported.collect();
    assert!(numbers.iter().copied().eq(1..=600), "{numbers:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_shell_does_not_prevent_parking_and_a_working_one_does() {
    if skipped_under_gvisor("a terminal does not report its foreground process group") {
        return;
    }
    let daemon = Daemon::start().await;
    let request = |key: &str| CreateSandbox {
        session_key: key.into(),
        idle_ttl_ms: Some(10_000),
        ..CreateSandbox::default()
    };
    let mut sandboxes = Vec::new();
    for key in ["chat:waits", "chat:works", "chat:seen"] {
        let sandbox = daemon.client.create_or_reconnect(&request(key)).await.unwrap().sandbox_id;
        let terminal = shell(&daemon, &sandbox).await;
        sandboxes.push((sandbox, terminal));
    }
    let [(waits, waiting), (works, working), (seen, looked_at)] = &sandboxes[..] else { panic!() };
    daemon.client.type_into(works, working, "sleep 1000\r").await.unwrap();
    let viewer = Viewer::attach(&daemon.client, seen, looked_at).await;

    let state = |sandbox: &SandboxId| {
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        async move { client.get(&sandbox).await.unwrap().state }
    };
    until("the sandbox with the waiting shell is parked", || async {
        state(waits).await == SandboxState::Parked
    })
    .await;
    let refused = daemon.client.park(works, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    // Longer than another idle time.
    let later = Instant::now() + Duration::from_secs(12);
    while Instant::now() < later {
        assert_eq!((state(works).await, state(seen).await), (SandboxState::Running, SandboxState::Running));
        sleep(Duration::from_millis(500)).await;
    }
    let gone = daemon.client.terminal(waits, waiting).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound), "it is gone with its container");
    drop(viewer);
    daemon.client.type_into(works, working, "\x03").await.unwrap();
    until("both are parked", || async {
        state(works).await == SandboxState::Parked && state(seen).await == SandboxState::Parked
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_instead_of_a_shell_prevents_parking_and_viewers_are_notified_of_a_park() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = sandbox_api::terminal::OpenTerminal { cmd: Some("cat".into()), ..Default::default() };
    let terminal = daemon.client.open_terminal(&sandbox, &request).await.unwrap().terminal_id;
    let refused = daemon.client.park(&sandbox, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(viewer.exit().await.2, EndReason::Lost);
    assert!(daemon.client.terminals(&sandbox).await.unwrap().terminals.is_empty());
    daemon.stop().await;
}
