//! The first signal finishes requests in progress and accepts no new ones. The second ends the daemon at once.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::TOKEN_HEADER;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::model::limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::timeout;

use crate::support::harness::{DaemonProcess, Home, SOON, TOKEN, free_port, outcome, script, until};
use crate::support::http::has_read_all;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
}

/// Whether the daemon rejects new connections.
async fn refuses(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).await.is_err()
}

/// A kept-alive connection that has had one response.
async fn idle_connection(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    send_request(&mut stream).await.unwrap();
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..read]));
    stream
}

async fn send_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let request = format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await
}

/// Either no response, or a 503 that closes the connection.
async fn is_rejected(mut stream: TcpStream) {
    let mut answer = Vec::new();
    if send_request(&mut stream).await.is_ok() {
        let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    }
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    assert!(
        answer.is_empty() || (answer.starts_with("http/1.1 503") && answer.contains("connection: close")),
        "{answer}"
    );
}

async fn sandbox(client: &Client) -> sandbox_api::SandboxId {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_finishes_requests_and_rejects_new_ones() {
    for stop in [Signal::TERM, Signal::INT] {
        let (home, port) = (Home::new(), free_port());
        let mut daemon = DaemonProcess::start(&home, port).await;
        let id = sandbox(&daemon.client).await;
        let (idle_connection, request) = (
            idle_connection(port).await,
            script("echo begun; until [ -e go ]; do sleep 0.05; done; echo done"),
        );
        let command = daemon.client.start(&id, &request).await.unwrap().command_id;
        let (client, sandbox) = (daemon.client.clone(), id.clone());
        let records = client.logs(&sandbox, &command, 0, true).await.unwrap();
        // Both a stream and a plain request are in progress.
        let mut waiting = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let wait = format!(
            "GET /v1/sandboxes/{id}/commands/{command}/wait HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n\r\n"
        );
        waiting.write_all(wait.as_bytes()).await.unwrap();
        let release = daemon.client.start(&id, &script("sleep 2; touch go")).await.unwrap();
        until("the daemon has read the wait", || async { has_read_all(&waiting) }).await;
        signal(&daemon.child, stop);
        until("new connections are refused", || refuses(port)).await;
        is_rejected(idle_connection).await;
        let received = outcome(records).await;
        assert_eq!(received.text(), "begun\ndone\n", "{stop:?} {release:?}");
        let mut answer = String::new();
        timeout(SOON, waiting.read_to_string(&mut answer)).await.expect("no answer").unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"exitCode\":0"),
            "{stop:?}: {answer}"
        );
        let ended =
            timeout(limits::DRAIN * 2, daemon.child.wait()).await.expect("the daemon does not end").unwrap();
        assert_eq!(ended.code(), Some(0), "{stop:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_signal_ends_the_daemon_at_once() {
    let (home, port) = (Home::new(), free_port());
    let mut daemon = DaemonProcess::start(&home, port).await;
    let id = sandbox(&daemon.client).await;
    let command = daemon.client.start(&id, &script("sleep 60")).await.unwrap().command_id;
    let _records = daemon.client.logs(&id, &command, 0, true).await.unwrap();
    signal(&daemon.child, Signal::TERM);
    until("new connections are refused", || refuses(port)).await;
    signal(&daemon.child, Signal::TERM);
    let ended =
        timeout(Duration::from_secs(2), daemon.child.wait()).await.expect("the daemon does not end").unwrap();
    assert_eq!(ended.code(), Some(143));

    // Its command keeps running, as after every end of a daemon.
    let daemon = DaemonProcess::start(&home, port).await;
    let status = daemon.client.inspect(&id, &command).await.unwrap();
    assert_eq!(status.exit_code, None);
    daemon.client.delete(&id).await.unwrap();
    daemon.kill().await;
}
