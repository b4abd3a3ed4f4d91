//! Floods from unauthenticated clients: how many bytes are accepted, and for how long.

use std::time::{Duration, Instant};

use listen::linger::LINGER;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON};
use crate::support::http::HttpClient;
use crate::support::processes::resident_kib;
use crate::support::visitor::{PORT, link, sandbox_with_port, serve, url_parts};

/// Memory that the daemon, which is in this process, may use for a whole flood.
const MOST_KIB: u64 = 24 * 1024;

/// Connections of one flood.
const CONNECTIONS: usize = 8;

/// Time without progress after which a connection counts as stalled.
const STILL: Duration = Duration::from_secs(1);

/// More than all buffers on the way can hold of one connection.
const ENDLESS: usize = 256 * 1024 * 1024;

/// Writes until no more is accepted or the connection is closed. Returns the number of bytes.
async fn fill(stream: &mut TcpStream) -> usize {
    let (part, mut taken) = (vec![b'x'; 64 * 1024], 0);
    while taken < ENDLESS {
        match timeout(STILL, stream.write(&part)).await {
            Ok(Ok(written)) => taken += written,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    taken
}

/// Runs floods in parallel and checks the memory. Returns the bytes of each.
async fn flood(port: u16, head: &str) -> Vec<(usize, TcpStream)> {
    let before = resident_kib();
    let floods = (0..CONNECTIONS).map(async |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        (fill(&mut stream).await, stream)
    });
    let filled = futures::future::join_all(floods).await;
    let after = resident_kib();
    assert!(after < before + MOST_KIB, "{before} KiB became {after} KiB");
    filled
}

#[tokio::test(flavor = "multi_thread")]
async fn data_sent_to_a_published_port_waits_for_the_server() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let unresponsive =
        format!("exec node -e \"require('net').createServer((s) => s.pause()).listen({PORT}, '127.0.0.1')\"");
    serve(&daemon, &sandbox, &unresponsive).await;
    let path = format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish");
    let published = HttpClient::of(&daemon).get(&path).await.json()["hostPort"].as_u64().unwrap() as u16;
    let filled = flood(published, "").await;
    let taken: Vec<usize> = filled.iter().map(|(taken, _)| *taken).collect();
    assert!(taken.iter().all(|taken| *taken > 0 && *taken < ENDLESS), "{taken:?}");
    // Other requests to the sandbox are not delayed.
    assert_eq!(daemon.output(&sandbox, "echo ok").await, "ok\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_an_unauthenticated_request_is_not_read_and_its_connection_ends_soon() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let api = daemon.base.rsplit_once(':').unwrap().1.parse().unwrap();
    let gateway = url_parts(&link(&daemon, &sandbox).await).port;
    let endless = "content-type: application/json\r\ncontent-length: 1099511627776\r\n\r\n";
    let chunks = format!("transfer-encoding: chunked\r\n\r\n{ENDLESS:x}\r\n");
    for (port, path, rest) in [
        (api, "POST /v1/sandboxes".to_owned(), endless),
        (api, format!("PUT /v1/sandboxes/{sandbox}/files?path=a"), endless),
        (api, format!("PUT /v1/sandboxes/{sandbox}/files?path=a"), &chunks),
        (gateway, "POST /".to_owned(), endless),
        (gateway, "POST /".to_owned(), &chunks),
    ] {
        let began = Instant::now();
        let head = format!("{path} HTTP/1.1\r\nhost: localhost\r\n{rest}");
        for (_, mut stream) in flood(port, &head).await {
            let mut answer = Vec::new();
            // A reset may arrive before the end of the response.
            let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
        }
        let took = began.elapsed();
        assert!(took < LINGER + Duration::from_secs(4), "{path}: {took:?}");
    }
    daemon.stop().await;
}
