//! How connections end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::time::timeout;

use super::{SOON, carried, carried_from, web};
use crate::{Broken, Budget, Meter, Tally};
use sandboxd_metrics::Metrics;

/// The sandbox's end of a connection. Records whether it is dropped before the client has closed it, which would cut
/// off a tunnel.
struct SandboxEnd {
    stream: DuplexStream,
    has_ended: bool,
    is_cut: Arc<AtomicBool>,
}

impl Drop for SandboxEnd {
    fn drop(&mut self) {
        self.is_cut.store(!self.has_ended, Ordering::SeqCst);
    }
}

impl AsyncRead for SandboxEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.has_ended |= matches!(polled, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        polled
    }
}

impl AsyncWrite for SandboxEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[tokio::test]
async fn each_direction_ends_independently() {
    let (mut client, mut server, carrying) = carried(None, None, SOON).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = String::new();
    server.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "answer");
    assert!(timeout(SOON, carrying).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn a_connection_over_its_byte_limit_is_reset() {
    let (mut client, mut server, carrying) = carried(None, Some(100), SOON).await;
    client.write_all(&[7; 101]).await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Spent)));
    let mut all = Vec::new();
    let ended = timeout(SOON, server.read_to_end(&mut all)).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn connections_share_a_budget_whose_end_cuts_all_of_them() {
    let budget = Arc::new(Budget::new(Some(100)));
    let connection = async || {
        let (client, near) = duplex(1 << 16);
        let tally = Tally::new(Arc::new(Metrics::new()), None, Arc::clone(&budget));
        let (server, carrying) = carried_from(near, None, Meter::new(Arc::new(tally), SOON)).await;
        (client, server, carrying)
    };
    let (mut first, mut second) = (connection().await, connection().await);
    first.0.write_all(&[7; 60]).await.unwrap();
    first.1.read_exact(&mut [0; 60]).await.unwrap();
    assert!(!budget.is_spent());
    second.0.write_all(&[7; 40]).await.unwrap();
    for carrying in [first.2, second.2] {
        assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Spent)));
    }
    assert_eq!(budget.restart(0), 100);
    assert!(!budget.is_spent(), "the next day");
    budget.set_max(Some(0));
    timeout(SOON, budget.spent()).await.unwrap();
}

#[tokio::test]
async fn only_idle_connections_time_out() {
    let silence = Duration::from_millis(400);
    let (mut client, mut server, carrying) = carried(None, None, silence).await;
    for _ in 0..8 {
        client.write_all(b"x").await.unwrap();
        server.read_exact(&mut [0]).await.unwrap();
        assert!(!carrying.is_finished());
        tokio::time::sleep(silence / 4).await;
    }
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Silent)));
}

#[tokio::test]
async fn a_reset_at_one_end_resets_the_other() {
    let (client, mut server, carrying) = carried(None, None, SOON).await;
    carrying.abort();
    drop(client);
    let ended = timeout(SOON, server.read_to_end(&mut Vec::new())).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "a reset is not an end of file");
}

/// Sends `answer` to one request and closes the connection.
async fn answer_and_close(server: &mut tokio::net::TcpStream, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        timeout(SOON, server.read_buf(&mut head)).await.unwrap().unwrap();
    }
    server.write_all(answer.as_bytes()).await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_response_arrives_whole_if_the_server_then_closes() {
    let long = "x".repeat(300_000);
    let answers = [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned(),
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned(),
        "HTTP/1.0 200 OK\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok".to_owned(),
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
            .to_owned(),
        "HTTP/1.1 304 Not Modified\r\nconnection: close\r\netag: \"ok\"\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{long}ok", long.len() + 2),
        format!("HTTP/1.0 200 OK\r\n\r\n{long}ok"),
    ];
    for answer in answers {
        for (round, own) in [(0, ""), (1, "connection: close\r\n"), (2, "")] {
            let shown = &answer[..answer.len().min(90)];
            let (mut client, stream) = duplex(1 << 16);
            let is_cut = Arc::new(AtomicBool::new(false));
            let near = SandboxEnd { stream, has_ended: false, is_cut: Arc::clone(&is_cut) };
            let meter = Meter::new(
                Arc::new(Tally::new(Arc::new(Metrics::new()), None, Arc::new(Budget::new(None)))),
                SOON,
            );
            let (mut server, carrying) = carried_from(near, web("a.example"), meter).await;
            let ask = format!("GET /x HTTP/1.1\r\nHost: a.example\r\n{own}\r\n");
            client.write_all(ask.as_bytes()).await.unwrap();
            answer_and_close(&mut server, &answer).await;
            let mut received = Vec::new();
            timeout(SOON, client.read_to_end(&mut received)).await.unwrap().unwrap();
            let received = String::from_utf8(received).unwrap();
            assert!(received.contains("ok"), "{round} {shown:?}: {received:.200?}");
            assert!(
                received.len() >= long.len() || answer.len() < long.len(),
                "{shown:?}: {}",
                received.len()
            );
            drop(client);
            let ended = timeout(SOON, carrying).await.unwrap().unwrap();
            assert!(ended.is_ok(), "{round} {shown:?}: {ended:?}");
            assert!(
                !is_cut.load(Ordering::SeqCst),
                "{round} {shown:?}: it was cut before its client had read it"
            );
        }
    }
}
