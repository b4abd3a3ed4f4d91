//! Many requests at once, full limits, and changes without the daemon's knowledge.

use std::time::Duration;

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{InspectContainerOptions, RemoveContainerOptions, RestartContainerOptions};
use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::ErrorCode;
use sandbox_api::command::{EndReason, Record, StartCommand};
use sandbox_api::files::{FileToWrite, WriteFiles};
use sandbox_api::sandbox::{CreateSandbox, Resources};
use tokio::time::timeout;

use crate::support::fault_injection::{connect, execute};
use crate::support::harness::{
    Collected, Daemon, DaemonProcess, Home, SOON, docker, free_port, outcome, script, skipped_under_gvisor,
    until,
};

#[tokio::test(flavor = "multi_thread")]
async fn many_waiting_clients_do_not_block_a_kill() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let awaited = client.start(&sandbox, &script("sleep 100")).await.unwrap().command_id;
    let other = client.start(&sandbox, &script("sleep 100")).await.unwrap().command_id;
    let waits: Vec<_> = (0..300)
        .map(|_| {
            let (client, sandbox, awaited) = (client.clone(), sandbox.clone(), awaited.clone());
            tokio::spawn(async move { client.wait(&sandbox, &awaited, None).await })
        })
        .collect();
    until("clients above the limit are rejected", || async {
        waits.iter().filter(|wait| wait.is_finished()).count() == 300 - sandboxd::model::limits::MAX_READERS
    })
    .await;
    client.kill(&sandbox, &other, &Default::default()).await.unwrap();
    client.kill(&sandbox, &awaited, &Default::default()).await.unwrap();
    let mut refused = 0;
    for wait in waits {
        match wait.await.unwrap() {
            Ok(ended) => assert_eq!(ended.reason, EndReason::Killed),
            Err(error) => {
                assert_eq!(error.code(), Some(ErrorCode::CapacityExhausted));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 300 - sandboxd::model::limits::MAX_READERS);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_logs_are_dropped_for_output_that_must_survive_a_crash() {
    let home = Home::new();
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    for _ in 0..5 {
        let request = script("head -c 9000000 /dev/zero | tr '\\0' x");
        let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
        daemon.client.wait(&sandbox, &command, None).await.unwrap();
        let status = daemon.client.inspect(&sandbox, &command).await.unwrap();
        assert!(status.dropped_bytes < 2_000_000, "{} bytes of the newest are gone", status.dropped_bytes);
    }
    let count = 1_500_000;
    let request = StartCommand {
        command_id: Some("cmd_printsAfterManyOthers".into()),
        ..script(&format!("seq 1 {count}"))
    };
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    let mut collected = Collected::default();
    while collected.stdout.len() < 1024 * 1024 {
        collected.take(records.next().await.unwrap().unwrap());
    }
    daemon.kill().await;
    while let Some(Ok(record)) = records.next().await {
        collected.take(record);
    }
    let daemon = DaemonProcess::start(&home, port).await;
    let command = "cmd_printsAfterManyOthers".parse().unwrap();
    let after = *collected.seqs.last().unwrap();
    let rest = outcome(daemon.client.logs(&sandbox, &command, after, true).await.unwrap()).await;
    assert_eq!(rest.dropped_bytes, 0);
    let wanted: String = (1..=count).map(|number| format!("{number}\n")).collect();
    assert!([collected.stdout, rest.stdout].concat() == wanted.as_bytes(), "the numbers differ");
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_restarted_by_others_is_usable_again() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    // The daemon lends the disk to the engine only for its own starts, so this may fail.
    let _ = docker().await.restart_container(&name, None::<RestartContainerOptions>).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_deleted_sandbox_is_notified_at_once() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    while !matches!(records.next().await, Some(Ok(Record::Stdout(_)))) {}
    daemon.client.delete(&sandbox).await.unwrap();
    // Far below the time for which an agent may be disconnected.
    let received = timeout(Duration::from_secs(3), outcome(records)).await.unwrap();
    assert_eq!(received.reason, EndReason::Lost);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_hangs_can_be_deleted() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    let inspected = docker().await.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let agent = inspected.state.unwrap().pid.unwrap();
    kill_process(Pid::from_raw(i32::try_from(agent).unwrap()).unwrap(), Signal::STOP).unwrap();
    let (client, stuck_id) = (daemon.client.clone(), sandbox.clone());
    let stuck = tokio::spawn(async move { client.start(&stuck_id, &script("true")).await });
    // Well before the stuck call's own deadline. The engine takes up to ten seconds to kill a paused container.
    let bound = sandboxd::model::limits::AGENT_CALL - Duration::from_secs(5);
    timeout(bound, daemon.client.delete(&sandbox)).await.unwrap().unwrap();
    assert!(stuck.await.unwrap().is_err());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_an_interrupted_delete_are_removed_at_the_next_start() {
    let daemon = Daemon::start().await;
    let (sandbox, kept) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let home = daemon.stop().await;
    // As if the daemon had been killed between the removal of the container and that of the volume.
    let deleting = "UPDATE sandboxes SET stage = 'deleting' WHERE session_key = 'chat:1'";
    execute(&mut connect(&home.path().join("state")).await, deleting).await;
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    let engine = docker().await;
    engine.remove_container(&format!("remcochat-sandbox-{sandbox}"), Some(options)).await.unwrap();
    // A foreign volume with our labels but no valid signature stays.
    let stranger = format!("sandboxd-test-{}", home.instance().unwrap().id());
    let label = ("sandboxd.instance".to_owned(), home.instance().unwrap().id().to_owned());
    let request = VolumeCreateRequest {
        name: Some(stranger.clone()),
        labels: Some([label].into()),
        ..Default::default()
    };
    engine.create_volume(request).await.unwrap();

    let daemon = Daemon::start_in(home).await;
    let volume = |id: &sandbox_api::SandboxId| format!("remcochat-sandbox-ws-{id}");
    assert!(engine.inspect_volume(&volume(&sandbox)).await.is_err());
    assert!(engine.inspect_volume(&volume(&kept)).await.is_ok());
    assert!(engine.inspect_volume(&stranger).await.is_ok());
    let run = daemon.home.path().join("run").join(daemon.home.instance().unwrap().id());
    let left = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "start-records").collect();
    assert_eq!(left, [kept.as_str()]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_served_while_the_sandbox_is_full_of_processes() {
    let daemon = Daemon::start().await;
    let resources = Some(Resources { pids: Some(64), ..Resources::default() });
    let request = CreateSandbox { session_key: "chat:1".into(), resources, ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let filler = "for i in $(seq 200); do sleep 60 2>/dev/null & done; wait";
    let mut records = daemon.client.run(&sandbox, &script(filler)).await.unwrap();
    let is_full = async { while !matches!(records.next().await, Some(Ok(Record::Stderr(_)))) {} };
    timeout(SOON, is_full).await.expect("bash can fork as often as it wants");
    // A shell may wait for the next script, but no other program.
    let program = StartCommand { cmd: Some("true".into()), ..StartCommand::default() };
    let refused = daemon.client.start(&sandbox, &program).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted), "{refused:?}");
    let file = FileToWrite { path: "f".into(), content_base64: "aGk=".into(), mode: None };
    daemon.client.write_files(&sandbox, &WriteFiles { files: vec![file] }).await.unwrap();
    assert_eq!(daemon.client.read_file(&sandbox, "f").await.unwrap().as_deref(), Some(&b"hi"[..]));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_arguments_are_limited_and_a_long_script_can_be_inspected() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let args = Some(vec!["x".repeat(8 * 1024 * 1024); 2]);
    let request = StartCommand { cmd: Some("true".into()), args, ..StartCommand::default() };
    let error = daemon.client.start(&sandbox, &request).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TooLarge));
    let long = script(&format!("true #{}", "é".repeat(1024 * 1024)));
    let command = daemon.client.start(&sandbox, &long).await.unwrap().command_id;
    let status = daemon.client.inspect(&sandbox, &command).await.unwrap();
    assert!(status.args[1].starts_with("true #é") && status.args[1].len() <= 4096);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_does_not_undo_detached() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand {
        command_id: Some("cmd_detachedFromTheStart".into()),
        detached: Some(true),
        ..script("echo begun; until [ -e go ]; do sleep 0.05; done; echo done")
    };
    daemon.client.start(&sandbox, &request).await.unwrap();
    // The id belongs to a detached command, which another request must not end.
    let again = StartCommand { detached: None, ..request.clone() };
    let refused = daemon.client.run(&sandbox, &again).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::AlreadyExists), "{refused:?}");
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    while !matches!(records.next().await, Some(Ok(Record::Stdout(_)))) {}
    drop(records);
    daemon.output(&sandbox, "touch go").await;
    let command = "cmd_detachedFromTheStart".parse().unwrap();
    let received = outcome(daemon.client.logs(&sandbox, &command, 0, true).await.unwrap()).await;
    assert_eq!((received.text().as_str(), received.reason), ("begun\ndone\n", EndReason::Exited));
    daemon.stop().await;
}
