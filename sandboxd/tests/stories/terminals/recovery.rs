//! A terminal and what happens around it: connections that break, daemons that end, sandboxes that rest.

use std::time::Duration;

use bollard::query_parameters::TopOptions;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::layout::container_name;
use tokio::time::{Instant, sleep};

use crate::support::harness::{Daemon, DaemonProcess, Home, docker, free_port, left_out_under_gvisor, until};
use crate::support::screens::{Seat, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_outlives_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let wish = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&wish).await.unwrap().sandbox_id;
    let terminal = daemon.client.open_terminal(&sandbox, &Default::default()).await.unwrap().terminal_id;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    seat.type_in("value=kept; for i in {1..5}; do echo before-$i; done\r").await;
    seat.until_seen("before-5\r\n").await;
    daemon.kill().await;
    assert!(seat.breaks().await, "a daemon that is killed says nothing");

    let daemon = DaemonProcess::start(&home, port).await;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    seat.until_seen("before-1\r\nbefore-2\r\n").await;
    seat.type_in("echo $value-still\r").await;
    seat.until_seen("kept-still\r\n").await;
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(seat.exit().await.2, EndReason::Lost);
    let gone = daemon.client.terminal(&sandbox, &terminal).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    daemon.kill().await;
}

/// Ends what carries the connection to the agent, as the host sees it.
async fn break_link(sandbox: &SandboxId) {
    let options = TopOptions { ps_args: "-eo pid,args".into() };
    let listed = docker().await.top_processes(&container_name(sandbox), Some(options)).await.unwrap();
    let processes = listed.processes.unwrap();
    let dial = processes.iter().find(|fields| fields[1].ends_with(" dial")).expect("nothing dials");
    kill_process(Pid::from_raw(dial[0].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_loses_and_repeats_nothing_where_the_way_to_the_agent_breaks() {
    if left_out_under_gvisor("the agent is reached through the engine here") {
        return;
    }
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_AGENT_TRANSPORT", "engine")).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    seat.type_in("clear; for i in {1..600}; do echo n-$i; sleep 0.005; done; echo through\r").await;
    for at in [50, 150, 250] {
        seat.until_seen(&format!("n-{at}\r\n")).await;
        break_link(&sandbox).await;
    }
    seat.until_seen("n-600\r\nthrough\r\n").await;
    let seen = seat.seen();
    let told = seen
        .lines()
        .filter_map(|line| line.rsplit("n-").next().filter(|_| line.contains("n-"))?.parse().ok());
    let numbers: Vec<u32> = told.collect();
    assert!(numbers.iter().copied().eq(1..=600), "{numbers:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_waits_keeps_no_sandbox_from_rest_and_one_that_works_does() {
    if left_out_under_gvisor("the foreground group of a terminal is not told to its other end") {
        return;
    }
    let daemon = Daemon::start().await;
    let wish = |key: &str| CreateSandbox {
        session_key: key.into(),
        idle_ttl_ms: Some(10_000),
        ..CreateSandbox::default()
    };
    let mut sandboxes = Vec::new();
    for key in ["chat:waits", "chat:works", "chat:seen"] {
        let sandbox = daemon.client.create_or_reconnect(&wish(key)).await.unwrap().sandbox_id;
        let terminal = shell(&daemon, &sandbox).await;
        sandboxes.push((sandbox, terminal));
    }
    let [(waits, waiting), (works, working), (seen, looked_at)] = &sandboxes[..] else { panic!() };
    daemon.client.type_into(works, working, "sleep 1000\r").await.unwrap();
    let seat = Seat::take(&daemon.client, seen, looked_at).await;

    let state = |sandbox: &SandboxId| {
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        async move { client.get(&sandbox).await.unwrap().state }
    };
    until("the one that waits is parked", || async { state(waits).await == SandboxState::Parked }).await;
    let refused = daemon.client.park(works, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    // Long enough for another idle time to pass.
    let later = Instant::now() + Duration::from_secs(12);
    while Instant::now() < later {
        assert_eq!((state(works).await, state(seen).await), (SandboxState::Running, SandboxState::Running));
        sleep(Duration::from_millis(500)).await;
    }
    let gone = daemon.client.terminal(waits, waiting).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound), "it is gone with its container");
    drop(seat);
    daemon.client.type_into(works, working, "\x03").await.unwrap();
    until("both are parked", || async {
        state(works).await == SandboxState::Parked && state(seen).await == SandboxState::Parked
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_its_own_is_work_and_viewers_learn_of_a_park() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let wish = sandbox_api::terminal::OpenTerminal { cmd: Some("cat".into()), ..Default::default() };
    let terminal = daemon.client.open_terminal(&sandbox, &wish).await.unwrap().terminal_id;
    let refused = daemon.client.park(&sandbox, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState));
    let mut seat = Seat::take(&daemon.client, &sandbox, &terminal).await;
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(seat.exit().await.2, EndReason::Lost);
    assert!(daemon.client.terminals(&sandbox).await.unwrap().terminals.is_empty());
    daemon.stop().await;
}
