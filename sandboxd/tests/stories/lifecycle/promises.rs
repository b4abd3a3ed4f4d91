//! Guarantees to clients that hold across parking, crashes and concurrent requests. A command runs once, is not ended
//! by other requests, and leaves no processes.

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, KillContainerOptions, RemoveContainerOptions, StartContainerOptions,
};
use sandbox_api::command::{EndReason, StartCommand};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::layout::container_name;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::harness::{Daemon, TOKEN, docker, outcome, script, skipped_under_gvisor, until};
use crate::support::http::HttpClient;
use crate::support::processes::stop_agent;

/// The number of ended commands in the metrics.
async fn counted(daemon: &Daemon) -> u64 {
    let reported = HttpClient::of(daemon).get("/metrics").await.body;
    let reported = String::from_utf8(reported).unwrap();
    let line = |line: &&str| line.starts_with("sandboxd_command_seconds_count{reason=\"exited\"");
    reported.lines().find(line).map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_is_the_same_command_after_its_container_is_gone() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        command_id: Some("cmd_charge1234567890".into()),
        ..script("echo charged | tee -a ledger; exit 3")
    };
    let first = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    let ended = daemon.client.wait(&sandbox, &first, None).await.unwrap();
    assert_eq!((ended.exit_code, ended.reason), (3, EndReason::Exited));

    let again = async |when: &str| {
        let reported = daemon.client.start(&sandbox, &request).await.unwrap();
        assert_eq!(reported.command_id, first, "{when}");
        let streamed = outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
        assert_eq!((streamed.exit_code, streamed.reason), (3, EndReason::Exited), "{when}");
        assert_eq!(daemon.client.wait(&sandbox, &first, None).await.unwrap().exit_code, 3, "{when}");
        assert_eq!(daemon.output(&sandbox, "cat ledger").await, "charged\n", "{when}");
        streamed
    };
    assert_eq!(again("at once").await.text(), "charged\n");
    daemon.client.park(&sandbox, false).await.unwrap();
    let streamed = again("after a rest").await;
    assert_eq!((streamed.text().as_str(), streamed.dropped_bytes), ("", 8), "the lost output is reported");
    let kill = docker().await;
    kill.kill_container(&container_name(&sandbox), None::<KillContainerOptions>).await.unwrap();
    until("it is parked", || async {
        daemon.client.get(&sandbox).await.unwrap().state == SandboxState::Parked
    })
    .await;
    again("after its container's death").await;
    for _ in 0..260 {
        daemon.output(&sandbox, "true").await;
    }
    let before = counted(&daemon).await;
    again("after more commands than an agent keeps").await;
    // Only the command that reads the ledger.
    assert_eq!(counted(&daemon).await, before + 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parking_ends_no_acknowledged_command() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand { detached: Some(true), ..script("sleep 60") };
    for round in 0..25_u64 {
        let park = async {
            tokio::time::sleep(std::time::Duration::from_micros(round * 150)).await;
            daemon.client.park(&sandbox, false).await
        };
        let (started, parked) = tokio::join!(daemon.client.start(&sandbox, &request), park);
        let command = started.unwrap().command_id;
        let seen = daemon.client.inspect(&sandbox, &command).await.unwrap();
        assert_eq!(seen.reason, None, "round {round}: {seen:?}, and parking answered {parked:?}");
        daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    }
    daemon.stop().await;
}

/// Requests a stream and never reads it.
async fn stalled_reader(daemon: &Daemon, sandbox: &SandboxId) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = daemon.base.strip_prefix("http://").unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let body = r#"{"script":"head -c 60000000 /dev/zero | base64","timeoutMs":2000}"#;
    let head = format!(
        "POST /v1/sandboxes/{sandbox}/commands HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\naccept: application/x-ndjson\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_does_not_delay_the_recorded_end() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let reader = stalled_reader(&daemon, &sandbox).await;
    until("the command runs", || async { daemon.client.get(&sandbox).await.unwrap().running_commands == 1 })
        .await;
    until("its end is recorded", || async {
        let commands = daemon.client.commands(&sandbox, 1).await.unwrap().commands;
        commands.first().is_some_and(|command| command.reason == Some(EndReason::Timeout))
    })
    .await;
    // The reader is still connected, and no command runs.
    daemon.client.park(&sandbox, false).await.unwrap();
    drop(reader);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parking_a_sandbox_that_hangs_reports_that_it_does_not_respond() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // A paused container would be resumed at once.
    stop_agent(&sandbox).await;
    let refused = daemon.client.park(&sandbox, false).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Unavailable), "{refused:?}");
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "echo back").await, "back\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_container_with_a_sandboxs_name_is_not_touched() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let (engine, name) = (docker().await, container_name(&sandbox));
    let body = ContainerCreateBody {
        image: Some("remcochat-sandbox:node24".into()),
        entrypoint: Some(vec!["sleep".into(), "600".into()]),
        network_disabled: Some(true),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
    let stranger = engine.create_container(Some(options), body).await.unwrap().id;
    engine.start_container(&stranger, None::<StartContainerOptions>).await.unwrap();

    let refused = daemon.client.touch(&sandbox, None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::AlreadyExists), "{refused:?}");
    daemon.client.park(&sandbox, true).await.unwrap();
    let found = engine.inspect_container(&stranger, None).await.unwrap();
    assert_eq!(found.state.unwrap().running, Some(true));
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    engine.remove_container(&stranger, Some(options)).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_with_a_lower_limit_parks_idle_sandboxes() {
    let daemon = Daemon::start().await;
    let busy = daemon.sandbox("chat:busy").await;
    let command = daemon.client.start(&busy, &script("sleep 300")).await.unwrap().command_id;
    for key in ["chat:1", "chat:2"] {
        daemon.sandbox(key).await;
    }
    let home = daemon.stop().await.set("SANDBOXD_MAX_CONCURRENT", "1");
    let daemon = Daemon::start_in(home).await;
    let running = async || {
        let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
        listed.iter().filter(|sandbox| sandbox.state == SandboxState::Running).count()
    };
    until("only the busy one runs", || async { running().await == 1 }).await;
    assert_eq!(daemon.client.inspect(&busy, &command).await.unwrap().ended_at, None);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_with_unusable_disks_can_be_deleted() {
    let daemon = Daemon::start().await;
    let (runs, parked) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&parked, false).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await.set("SANDBOXD_DISK_QUOTA", "off")).await;
    for sandbox in [&runs, &parked] {
        daemon.client.delete(sandbox).await.unwrap();
    }
    let request = CreateSandbox { session_key: "chat:2".into(), ..CreateSandbox::default() };
    assert!(daemon.client.create_or_reconnect(&request).await.unwrap().created);
    daemon.stop().await;
}
