//! Streaming clients that read nothing: the memory that the daemon uses for them, and that it frees it.

use std::time::Duration;

use futures::{StreamExt, stream};
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::CreateSandbox;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::harness::{DaemonProcess, Home, SOON, TOKEN, free_port, outcome, script, until};

/// Concurrent clients; fewer than a sandbox may have.
const CLIENTS: usize = 240;

/// Memory that the daemon may use for all of them, once it has noticed that they do not read.
const HELD_KIB: u64 = 96 * 1024;

/// Memory that may remain in use after they have left.
const LEFT_KIB: u64 = 40 * 1024;

fn resident_kib(daemon: &DaemonProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Sends a request and reads only the beginning of the response.
async fn unread(port: u16, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 64];
    timeout(SOON, stream.read_exact(&mut head)).await.expect("no answer").unwrap();
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    stream
}

fn head(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         accept: application/x-ndjson\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn sandbox(daemon: &DaemonProcess) -> SandboxId {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Makes clients send `request` and read nothing. Checks the daemon's memory meanwhile.
async fn check(daemon: &DaemonProcess, port: u16, clients: usize, request: &str) -> Vec<TcpStream> {
    let before = resident_kib(daemon);
    let connect = stream::iter(0..clients).map(|_| unread(port, request)).buffer_unordered(16);
    let unread: Vec<_> = connect.collect().await;
    until("the daemon uses little memory for clients that do not read", || async {
        resident_kib(daemon) < before + HELD_KIB
    })
    .await;
    unread
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_that_do_not_read_use_little_memory_and_free_it() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let id = sandbox(&daemon).await;
    let much = StartCommand { timeout_ms: Some(60_000), ..script("head -c 30000000 /dev/zero | tr '\\0' x") };
    let command = daemon.client.start(&id, &much).await.unwrap().command_id;
    daemon.client.wait(&id, &command, None).await.unwrap();
    let before = resident_kib(&daemon);
    let request = head("GET", &format!("/v1/sandboxes/{id}/commands/{command}/logs?follow=true"), "");
    let mut unread = check(&daemon, port, CLIENTS, &request).await;
    // One of them continues to read, and misses nothing that was kept.
    let mut rest = Vec::new();
    let mut reader = unread.pop().unwrap();
    while !String::from_utf8_lossy(&rest[rest.len().saturating_sub(400)..]).contains(r#"{"stream":"exit""#) {
        assert!(timeout(SOON, reader.read_buf(&mut rest)).await.expect("no more data arrives").unwrap() > 0);
    }
    assert!(rest.len() > 7 * 1024 * 1024, "{} bytes came", rest.len());
    drop((unread, reader));
    until("the memory is freed", || async { resident_kib(&daemon) < before + LEFT_KIB }).await;
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_pauses_for_longer_than_its_events_are_held_misses_nothing() {
    const OUTPUT_BYTES: usize = 40_000_000;
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let id = sandbox(&daemon).await;
    let much = format!("head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' x");
    let request = StartCommand { timeout_ms: Some(120_000), ..script(&much) };
    let mut records = daemon.client.run(&id, &request).await.unwrap();
    records.next().await.unwrap().unwrap();
    let commands = daemon.client.commands(&id, 1).await.unwrap().commands;
    let command = &commands[0].command_id;
    // Longer than an agent waits for a broken connection.
    let pause = daemon.client.wait(&id, command, Some(Duration::from_secs(35))).await;
    pause.expect_err("it ended without a reader");
    let all = outcome(records).await;
    assert_eq!((all.dropped_bytes, all.stdout.len()), (0, OUTPUT_BYTES));
    daemon.kill().await;
}
