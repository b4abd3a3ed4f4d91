//! A command id runs exactly one command, once: across killed daemons, parking, and requests that differ.

use std::path::PathBuf;

use sandbox_api::command::{Command, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::Client;

use crate::support::fault_injection::{connect, execute};
use crate::support::harness::{Daemon, DaemonProcess, Home, free_port, outcome, script, until};

/// A command that appends its id to a file of the workspace.
fn charge(number: usize) -> StartCommand {
    let id = format!("cmd_charge{number:016}");
    StartCommand { command_id: Some(id.clone()), ..script(&format!("echo {id} >> ledger; exit 3")) }
}

fn state_dir(home: &Home) -> PathBuf {
    home.path().join("state")
}

async fn sandbox(client: &Client) -> SandboxId {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Parks a sandbox as soon as its agent is connected again.
async fn park(client: &Client, id: &SandboxId) {
    until("it can be parked", || async { client.park(id, false).await.is_ok() }).await;
}

async fn ledger(client: &Client, id: &SandboxId) -> Vec<String> {
    let ledger = client.read_file(id, "ledger").await.unwrap().unwrap_or_default();
    String::from_utf8(ledger.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

async fn inspect(client: &Client, id: &SandboxId, request: &StartCommand) -> Command {
    let command: CommandId = request.command_id.as_ref().unwrap().parse().unwrap();
    client.inspect(id, &command).await.unwrap()
}

/// Starts commands, and kills the daemon before it writes any of them to its store.
async fn start_and_kill(home: &Home, port: u16, requests: &[StartCommand]) -> SandboxId {
    let daemon = DaemonProcess::start(home, port).await;
    let id = sandbox(&daemon.client).await;
    let mut store = connect(&state_dir(home)).await;
    execute(&mut store, "BEGIN IMMEDIATE").await;
    for request in requests {
        daemon.client.start(&id, request).await.unwrap();
    }
    until("they have run", || async { ledger(&daemon.client, &id).await.len() == requests.len() }).await;
    daemon.kill().await;
    execute(&mut store, "ROLLBACK").await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_killed_daemon_does_not_run_again_after_a_park() {
    let (home, port) = (Home::new(), free_port());
    // More commands than the agent keeps output for.
    let requests: Vec<_> = (0..300).map(charge).collect();
    let id = start_and_kill(&home, port, &requests).await;

    let daemon = DaemonProcess::start(&home, port).await;
    let client = &daemon.client;
    park(client, &id).await;
    for request in requests.iter().step_by(23) {
        client.start(&id, request).await.unwrap();
        let reported = outcome(client.run(&id, request).await.unwrap()).await;
        assert_eq!(reported.exit_code, 3, "its end is recorded");
        let command = inspect(client, &id, request).await;
        assert_eq!((command.exit_code, command.cmd.as_str()), (Some(3), "bash"));
    }
    assert_eq!(ledger(client, &id).await.len(), requests.len(), "each ran once");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_park_records_commands_that_ran_before_the_daemon_was_killed() {
    let (home, port) = (Home::new(), free_port());
    let id = start_and_kill(&home, port, &[charge(1)]).await;
    let daemon = DaemonProcess::start(&home, port).await;
    daemon.client.park(&id, true).await.unwrap();
    daemon.client.start(&id, &charge(1)).await.unwrap();
    assert_eq!(ledger(&daemon.client, &id).await.len(), 1);
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_commands_cannot_be_recorded_is_not_parked() {
    let (home, port) = (Home::new(), free_port());
    let id = start_and_kill(&home, port, &[charge(1)]).await;
    // The store is locked before the daemon can record the commands of the agent.
    let daemon = DaemonProcess::start(&home, port).await;
    let mut store = connect(&state_dir(&home)).await;
    execute(&mut store, "BEGIN IMMEDIATE").await;
    let refused = daemon.client.park(&id, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Unavailable), "{refused:?}");
    assert_eq!(daemon.client.get(&id).await.unwrap().state, SandboxState::Running);
    execute(&mut store, "ROLLBACK").await;
    park(&daemon.client, &id).await;
    daemon.client.start(&id, &charge(1)).await.unwrap();
    assert_eq!(ledger(&daemon.client, &id).await.len(), 1);
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_survives_a_killed_daemon_keeps_its_sandbox_and_its_end_is_recorded() {
    let (home, port) = (Home::new(), free_port());
    let waits = StartCommand {
        command_id: Some("cmd_waits12345678901".into()),
        ..script("echo waits >> ledger; until [ -e go ]; do sleep 0.05; done; exit 4")
    };
    let id = start_and_kill(&home, port, std::slice::from_ref(&waits)).await;
    let daemon = DaemonProcess::start(&home, port).await;
    let client = &daemon.client;
    until("it is recorded", || async { client.commands(&id, 1).await.unwrap().commands.len() == 1 }).await;
    until("it is watched", || async { client.get(&id).await.unwrap().running_commands == 1 }).await;
    let refused = client.park(&id, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::WrongState), "{refused:?}");
    outcome(client.run(&id, &script("touch go")).await.unwrap()).await;
    park(client, &id).await;
    assert_eq!(inspect(client, &id, &waits).await.exit_code, Some(4));
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_with_a_different_request_is_rejected_everywhere() {
    let daemon = Daemon::start().await;
    let id = daemon.sandbox("chat:1").await;
    let first = charge(1);
    daemon.client.start(&id, &first).await.unwrap();
    let others = [
        StartCommand { script: Some("echo other".into()), ..first.clone() },
        StartCommand { timeout_ms: Some(60_000), ..first.clone() },
        StartCommand { stdin: Some(String::new()), ..first.clone() },
        StartCommand { detached: Some(true), ..first.clone() },
    ];
    let check = async |when: &str| {
        for other in &others {
            let started = daemon.client.start(&id, other).await.unwrap_err();
            let streamed = daemon.client.run(&id, other).await.map(drop).unwrap_err();
            for refused in [started, streamed] {
                assert_eq!(refused.code(), Some(ErrorCode::AlreadyExists), "{when}: {refused:?}");
            }
        }
        daemon.client.start(&id, &first).await.unwrap();
    };
    check("at once").await;
    daemon.client.wait(&id, &first.command_id.as_ref().unwrap().parse().unwrap(), None).await.unwrap();
    check("after its end").await;
    daemon.client.park(&id, false).await.unwrap();
    check("after a park").await;
    assert_eq!(ledger(&daemon.client, &id).await.len(), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_recorded_without_a_digest_is_accepted_again() {
    let home = Home::new();
    let daemon = Daemon::start_in(home).await;
    let id = daemon.sandbox("chat:1").await;
    daemon.client.start(&id, &charge(1)).await.unwrap();
    daemon.client.wait(&id, &charge(1).command_id.unwrap().parse().unwrap(), None).await.unwrap();
    daemon.client.park(&id, false).await.unwrap();
    // The row as an earlier version wrote it.
    execute(&mut connect(&state_dir(&daemon.home)).await, "UPDATE commands SET request_digest = NULL").await;
    let other = StartCommand { timeout_ms: Some(60_000), ..charge(1) };
    daemon.client.start(&id, &other).await.unwrap();
    assert_eq!(ledger(&daemon.client, &id).await.len(), 1);
    daemon.stop().await;
}
