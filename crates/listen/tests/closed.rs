//! Connections that are closed during a response.

use std::time::Duration;

use http::Response;
use listen::ConnectionLimit;
use listen::serve::{Bounds, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { head: Duration::from_secs(5), max_headers: 20, read_bytes: 16 * 1024 };

/// More than the buffers of both ends take.
const LARGE: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn a_response_that_its_client_does_not_read_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let slot = ConnectionLimit::new(1).register();
    let answer = |_| async { Response::new("x".repeat(LARGE)) };
    let served = tokio::spawn({
        let slot = slot.clone();
        async move { serve(stream, slot, BOUNDS, CancellationToken::new(), answer).await }
    });
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // The response has begun.
    client.read_exact(&mut [0; 64]).await.unwrap();
    assert!(!served.is_finished(), "the client has not read the rest");
    slot.close();
    timeout(SOON, served).await.expect("the connection stays open").unwrap().unwrap();
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = timeout(SOON, client.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.len() < LARGE, "the response is complete");
}
