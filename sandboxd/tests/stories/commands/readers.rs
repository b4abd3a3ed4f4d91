//! Readers that hold a command back, and for how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::command::{EndReason, Output, Record, StartCommand};
use sandbox_api::{CommandId, SandboxId};
use sandbox_client::{Client, Records};
use test_daemon::until;
use tokio::time::timeout;

use crate::support::harness::{Daemon, DaemonProcess, Home, Outcome, SOON, free_port, outcome, script};

/// More than a log, a connection and the sockets can hold.
const OUTPUT_BYTES: usize = 60_000_000;

/// Time in which a command that is not held back would end.
const MOMENT: Duration = Duration::from_secs(2);

/// A command that has written nothing for this long is held back.
const UNCHANGED: Duration = Duration::from_millis(500);

/// How long an agent waits for a first reader, and for one that left.
const READER_ABSENCE: Duration = Duration::from_secs(3);

/// A reader may be late on a busy host. Nothing is guaranteed then, and the test tries again.
const TRIES: usize = 10;

/// The reader of a command and its first output, or `None` if it came later than [`READER_ABSENCE`] after `since`.
async fn reader_in_time(
    client: &Client,
    sandbox: &SandboxId,
    command: &CommandId,
    after: u64,
    since: Instant,
) -> Option<(Records, Output)> {
    let mut records = client.logs(sandbox, command, after, true).await.unwrap();
    let first = records.next().await.unwrap().unwrap();
    if since.elapsed() >= READER_ABSENCE {
        client.kill(sandbox, command, &Default::default()).await.unwrap();
        return None;
    }
    let Record::Stdout(first) = first else { panic!("no output: {first:?}") };
    assert_eq!(first.seq, after + 1);
    Some((records, first))
}

/// A command started without a stream, and its first reader, which came in time.
async fn first_reader(
    client: &Client,
    sandbox: &SandboxId,
    request: &StartCommand,
) -> (CommandId, Records, Output) {
    for _ in 0..TRIES {
        let began = Instant::now();
        let command = client.start(sandbox, request).await.unwrap().command_id;
        if let Some((records, first)) = reader_in_time(client, sandbox, &command, 0, began).await {
            return (command, records, first);
        }
    }
    panic!("no reader came in time");
}

fn writes_much() -> StartCommand {
    let script = script(&format!("head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x"));
    StartCommand { timeout_ms: Some(120_000), ..script }
}

fn assert_whole(all: &Outcome) {
    assert_eq!((all.exit_code, all.reason, all.dropped_bytes), (0, EndReason::Exited, 0));
    assert_eq!(all.stdout.len(), OUTPUT_BYTES);
}

/// Whether a command ends although it has no reader.
async fn ends_in_a_moment(daemon: &Daemon, sandbox: &SandboxId, command: &CommandId) -> bool {
    daemon.client.wait(sandbox, command, Some(MOMENT)).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_reader_of_a_command_started_without_a_stream_misses_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for detached in [false, true] {
        let request = StartCommand { detached: Some(detached), ..writes_much() };
        let (command, records, first) = first_reader(&daemon.client, &sandbox, &request).await;
        assert!(!ends_in_a_moment(&daemon, &sandbox, &command).await, "its reader pauses");
        let mut all = outcome(records).await;
        all.stdout.extend(first.data.bytes());
        assert_whole(&all);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_reader_is_held_back_only_briefly() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &writes_much()).await.unwrap().command_id;
    let ended = timeout(SOON, daemon.client.wait(&sandbox, &command, None)).await.unwrap().unwrap();
    assert_eq!((ended.exit_code, ended.reason), (0, EndReason::Exited));
    let late = outcome(daemon.client.logs(&sandbox, &command, 0, true).await.unwrap()).await;
    assert!(late.dropped_bytes > 0, "a late reader gets the number of dropped bytes");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_command_waits_for_the_reader_of_its_stream() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command: CommandId = "cmd_detached12345678".parse().unwrap();
    let request =
        StartCommand { detached: Some(true), command_id: Some(command.to_string()), ..writes_much() };
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    assert!(matches!(records.next().await.unwrap().unwrap(), Record::Start { .. }));
    assert!(!ends_in_a_moment(&daemon, &sandbox, &command).await, "its reader pauses");
    assert_whole(&outcome(records).await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_command_continues_soon_after_its_reader_left() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let request = StartCommand { detached: Some(true), ..writes_much() };
    let mut records = daemon.client.run(&sandbox, &request).await.unwrap();
    let Record::Start { command_id, .. } = records.next().await.unwrap().unwrap() else { panic!("no start") };
    drop(records);
    // Sooner than after a broken connection.
    let ended = timeout(Duration::from_secs(15), daemon.client.wait(&sandbox, &command_id, None)).await;
    assert_eq!(ended.expect("it still waits").unwrap().reason, EndReason::Exited);
    daemon.stop().await;
}

/// Reads a command over one connection after the other. Returns the bytes received and the bytes dropped, or `None` if
/// a connection came too late.
async fn read_in_turns(client: &Client, sandbox: &SandboxId) -> Option<(usize, u64)> {
    let (command, mut records, first) = first_reader(client, sandbox, &writes_much()).await;
    let (mut bytes, mut after) = (first.data.len(), first.seq);
    for _ in 0..5 {
        let left = Instant::now();
        drop(records);
        let (again, output) = reader_in_time(client, sandbox, &command, after, left).await?;
        (records, after) = (again, output.seq);
        bytes += output.data.len();
    }
    let rest = outcome(records).await;
    Some((bytes + rest.stdout.len(), rest.dropped_bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reconnects_at_once_misses_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut read = None;
    for _ in 0..TRIES {
        read = read_in_turns(&daemon.client, &sandbox).await;
        if read.is_some() {
            break;
        }
    }
    assert_eq!(read, Some((OUTPUT_BYTES, 0)));
    daemon.stop().await;
}

/// Waits until a command that is held back writes no more.
async fn until_it_pauses(client: &Client, sandbox: &SandboxId, command: &CommandId) {
    let before = AtomicU64::new(u64::MAX);
    until("the command pauses", || async {
        let written = client.inspect(sandbox, command).await.unwrap().stdout_bytes;
        tokio::time::sleep(UNCHANGED).await;
        before.swap(written, Ordering::Relaxed) == written
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pauses_and_loses_its_connection_misses_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let (command, records, first) = first_reader(&daemon.client, &sandbox, &writes_much()).await;
    until_it_pauses(&daemon.client, &sandbox, &command).await;
    drop(records);
    let rest = outcome(daemon.client.logs(&sandbox, &command, first.seq, true).await.unwrap()).await;
    assert_eq!((rest.dropped_bytes, first.data.len() + rest.stdout.len()), (0, OUTPUT_BYTES));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reader_of_a_plain_start_misses_nothing_when_the_daemon_is_killed() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = sandbox_api::sandbox::CreateSandbox { session_key: "chat:1".into(), ..Default::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let (command, _records, first) = first_reader(&daemon.client, &sandbox, &writes_much()).await;
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    let rest = outcome(daemon.client.logs(&sandbox, &command, first.seq, true).await.unwrap()).await;
    assert_eq!((rest.dropped_bytes, first.data.len() + rest.stdout.len()), (0, OUTPUT_BYTES));
    daemon.kill().await;
}
