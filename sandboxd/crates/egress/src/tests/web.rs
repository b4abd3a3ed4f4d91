//! Plain HTTP.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::{SOON, carried, web};
use crate::Broken;

#[tokio::test]
async fn every_request_of_plain_http_is_for_the_requested_host() {
    let (mut client, mut server, carrying) = carried(web("a.example"), None, SOON).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let mut buffer = vec![0; 4096];
    for _ in 0..2 {
        client
            .write_all(b"GET /x HTTP/1.1\r\nHost: A.example\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n")
            .await
            .unwrap();
        let length = timeout(SOON, server.read(&mut buffer)).await.unwrap().unwrap();
        let head = String::from_utf8_lossy(&buffer[..length]).to_ascii_lowercase();
        assert!(head.starts_with("get /x http/1.1\r\n") && head.contains("host: a.example"), "{head}");
        assert!(!head.contains("upgrade"), "{head}");
        server.write_all(answer).await.unwrap();
        let length = timeout(SOON, client.read(&mut buffer)).await.unwrap().unwrap();
        assert!(buffer[..length].ends_with(b"ok"));
    }
    client.write_all(b"GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n").await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)));
    let mut rest = Vec::new();
    let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"", "nothing of it arrived");
}

#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let shapes = [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: evil.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: a.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example, evil.example\r\n\r\n",
        "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a.example\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
    ];
    for shape in shapes {
        let (mut client, mut server, carrying) = carried(web("a.example"), None, SOON).await;
        client.write_all(shape.as_bytes()).await.unwrap();
        let ended = timeout(SOON, carrying).await.unwrap().unwrap();
        assert!(ended.is_err(), "{shape:?}");
        let mut rest = Vec::new();
        let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"", "{shape:?}");
    }
}

#[tokio::test]
async fn a_request_smuggled_in_a_body_with_two_lengths_stays_in_the_body() {
    let (mut client, mut server, _carrying) = carried(web("a.example"), None, SOON).await;
    let smuggled = "0\r\n\r\nGET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\ntransfer-encoding: chunked\r\ncontent-length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(Ok(length @ 1..)) = timeout(Duration::from_millis(500), server.read(&mut buffer)).await {
        received.extend_from_slice(&buffer[..length]);
        if received.ends_with(b"0\r\n\r\n") {
            let _ = server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    }
    let received = String::from_utf8_lossy(&received);
    assert!(
        !received.contains("evil.example") && !received.to_ascii_lowercase().contains("content-length"),
        "{received}"
    );
}
