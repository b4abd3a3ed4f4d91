//! Following a command over broken connections: every record arrives once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::command::{EndReason, KillCommand, Record, StartCommand};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::{CommandId, ErrorCode};
use sandbox_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::harness::{
    Collected, Daemon, DaemonProcess, Home, Outcome, SOON, TOKEN, free_port, script, until,
};

/// Reads to the end. Each record must be the next one.
async fn followed(client: &Client, sandbox: &sandbox_api::SandboxId, command: &CommandId) -> Outcome {
    let mut records = client.follow(sandbox, command, 0);
    let mut collected = Collected::default();
    while let Some(record) = records.next().await {
        if let Some(outcome) = collected.take(record.unwrap()) {
            assert!(records.next().await.is_none(), "there is no record after the end");
            return outcome;
        }
    }
    panic!("no end");
}

/// A proxy that forwards a fixed number of bytes of each connection's responses and then closes it.
struct Cutter {
    url: String,
    cuts: Arc<AtomicUsize>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl Cutter {
    async fn before(daemon: &Daemon, bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = daemon.base.strip_prefix("http://").unwrap().to_owned();
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cuts);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, cuts) = (target.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    if pass(client, &target, bytes).await.unwrap_or(false) {
                        cuts.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { url, cuts, _task: tokio_util::task::AbortOnDropHandle::new(task) }
    }
}

/// Returns whether the limit cut the connection.
async fn pass(client: TcpStream, target: &str, mut left: usize) -> std::io::Result<bool> {
    let daemon = TcpStream::connect(target).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_daemon, mut to_daemon) = daemon.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_daemon).await });
    let mut buffer = vec![0; 16 * 1024];
    while left > 0 {
        let room = left.min(buffer.len());
        let read = from_daemon.read(&mut buffer[..room]).await?;
        if read == 0 {
            return Ok(false);
        }
        to_client.write_all(&buffer[..read]).await?;
        left -= read;
    }
    up.abort();
    Ok(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn following_over_repeatedly_cut_connections_loses_and_repeats_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // The cuts fall in the middle of lines and characters, each time at another place. A record must fit between two
    // cuts. The longest one has 64 KiB of data and, because of the byte that is not UTF-8, the same again in base64.
    let request =
        script("for i in $(seq 1 80000); do echo \"€ $i\"; done; printf '\\377'; echo err >&2; exit 5");
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    let cutter = Cutter::before(&daemon, 200_003).await;
    let client = Client::new(&cutter.url, TOKEN).unwrap();
    let received = timeout(SOON, followed(&client, &sandbox, &command)).await.unwrap();
    let wanted: String = (1..=80_000).map(|number| format!("€ {number}\n")).collect();
    assert!(received.stdout == [wanted.as_bytes(), b"\xff"].concat(), "the bytes differ");
    assert!(received.seqs.iter().copied().eq(1..=received.seqs.len() as u64), "the numbers differ");
    assert_eq!((received.exit_code, received.reason, received.dropped_bytes), (5, EndReason::Exited, 0));
    assert!(cutter.cuts.load(Ordering::Relaxed) > 0, "nothing was cut");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn following_continues_after_the_daemon_is_killed_and_restarted() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let request = StartCommand {
        timeout_ms: Some(120_000),
        ..script("n=0; until [ -e stop ]; do echo $((n += 1)); sleep 0.005; done")
    };
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    let (client, id, of) = (daemon.client.clone(), sandbox.clone(), command.clone());
    let follower = tokio::spawn(async move { followed(&client, &id, &of).await });
    // The second time it stays away longer.
    let mut daemon = daemon;
    for _ in 0..2 {
        let before = daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes;
        until("the command writes", || async {
            daemon.client.inspect(&sandbox, &command).await.unwrap().stdout_bytes > before + 200
        })
        .await;
        daemon.kill().await;
        daemon = DaemonProcess::start(&home, port).await;
    }
    daemon.client.run(&sandbox, &script("touch stop")).await.unwrap().count().await;
    let received = timeout(SOON, follower).await.unwrap().unwrap();
    let numbers: Vec<u64> = received.text().lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    assert!(received.seqs.iter().copied().eq(1..=received.seqs.len() as u64));
    assert_eq!((received.exit_code, received.dropped_bytes), (0, 0));
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn following_ends_on_permanent_errors() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let unknown: CommandId = "cmd_0000000000000000".parse().unwrap();
    let stranger = Client::new(&daemon.base, "wrong").unwrap();
    for (client, code) in [(&daemon.client, ErrorCode::NotFound), (&stranger, ErrorCode::Unauthenticated)] {
        let began = Instant::now();
        let received: Vec<_> = client.follow(&sandbox, &unknown, 0).collect().await;
        let [Err(error)] = &received[..] else { panic!("{received:?}") };
        assert_eq!(error.code(), Some(code));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    // A gap is reported once, however often the connection broke.
    let total = 40 * 1024 * 1024;
    let request = script(&format!("head -c {total} /dev/zero | tr '\\0' x; echo last"));
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    daemon.client.wait(&sandbox, &command, None).await.unwrap();
    let cutter = Cutter::before(&daemon, 3_000_001).await;
    let mut records = Client::new(&cutter.url, TOKEN).unwrap().follow(&sandbox, &command, 0);
    let (mut gaps, mut bytes, mut reported) = (0, 0, None);
    while let Some(record) = records.next().await {
        match record.unwrap() {
            Record::Gap { dropped_bytes, .. } => gaps += dropped_bytes,
            Record::Stdout(output) => bytes += output.data.len() as u64,
            Record::Exit { dropped_bytes, .. } => reported = Some(dropped_bytes),
            _ => {}
        }
    }
    assert!(gaps > 0 && cutter.cuts.load(Ordering::Relaxed) > 1);
    assert_eq!((gaps + bytes, reported), (total + "last\n".len() as u64, Some(gaps)));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_without_time_reports_a_command_that_has_ended() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("exit 7")).await.unwrap().command_id;
    daemon.client.wait(&sandbox, &command, None).await.unwrap();
    for _ in 0..50 {
        let ended = daemon.client.wait(&sandbox, &command, Some(Duration::ZERO)).await.unwrap();
        assert_eq!(ended.exit_code, 7);
    }
    let unknown = "cmd_0123456789abcdef".parse().unwrap();
    let error = daemon.client.wait(&sandbox, &unknown, Some(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_disconnects_leaves_the_command_running() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("echo begun; sleep 60")).await.unwrap().command_id;
    let mut records = daemon.client.follow(&sandbox, &command, 0);
    assert!(matches!(records.next().await, Some(Ok(Record::Stdout(_)))));
    drop(records);
    let error = daemon.client.wait(&sandbox, &command, Some(Duration::from_secs(1))).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DeadlineExceeded));
    daemon.client.kill(&sandbox, &command, &KillCommand::default()).await.unwrap();
    daemon.stop().await;
}
