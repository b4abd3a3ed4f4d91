//! Pipelined requests, and heads that two implementations may interpret differently.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listen::serve::{Bounds, serve};
use listen::{ConnectionLimit, shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The data sent to the echo.
const ECHOED: &str = "one\n\r\n\r\ntwo";

const SOON: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { head: Duration::from_secs(5), max_headers: 20, read_bytes: 16 * 1024 };

/// Responds with the path and the body of each request. After an upgrade, echoes the data.
async fn answer(mut request: Request<Incoming>) -> Response<String> {
    if let Err(problem) = shape::check(&request) {
        return Response::builder().status(400).body(problem.to_owned()).unwrap();
    }
    if request.headers().contains_key("upgrade") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut exchange = [0; ECHOED.len()];
            stream.read_exact(&mut exchange).await.unwrap();
            stream.write_all(&exchange).await.unwrap();
        });
        let upgraded =
            Response::builder().status(101).header("connection", "upgrade").header("upgrade", "echo");
        return upgraded.body(String::new()).unwrap();
    }
    let path = request.uri().path().to_owned();
    if path == "/early" {
        tokio::spawn(body_of(request.into_body()));
        return Response::new("<early>".to_owned());
    }
    let body = body_of(request.into_body()).await;
    Response::new(format!("<{path} {}>", body.escape_ascii()))
}

async fn body_of(mut body: Incoming) -> Vec<u8> {
    let mut all = Vec::new();
    let next = async |body: &mut Incoming| {
        std::future::poll_fn(|context| hyper::body::Body::poll_frame(std::pin::Pin::new(&mut *body), context))
            .await
    };
    while let Some(frame) = next(&mut body).await {
        all.extend(frame.unwrap().into_data().unwrap_or(Bytes::new()));
    }
    all
}

/// Sends each part after a pause, and returns everything received until the connection ends.
async fn exchange(parts: &[&[u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let slot = ConnectionLimit::new(1).register();
    let server = tokio::spawn(serve(stream, slot, BOUNDS, CancellationToken::new(), answer));
    for part in parts {
        // The server may have closed the connection after an earlier part.
        let _ = client.write_all(part).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    let mut all = Vec::new();
    let end = timeout(SOON, client.read_to_end(&mut all)).await;
    assert!(end.is_ok(), "it does not hang up after {parts:?}: {}", all.escape_ascii());
    drop(client);
    timeout(SOON, server).await.expect("it ends").unwrap().ok();
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends the bytes at once, and then one by one.
async fn exchange_both_ways(bytes: &[u8]) -> [String; 2] {
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    [exchange(&[bytes]).await, exchange(&single).await]
}

fn count(exchange: &str, what: &str) -> usize {
    exchange.matches(what).count()
}

const GET: &str = "GET /first HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST /first HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\na\nb\r\nc";
const CHUNKS: &str =
    "POST /first HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n";

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    for first in [GET, POST] {
        let all = [first, first, "\r\nGET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"].concat();
        for exchange in exchange_both_ways(all.as_bytes()).await {
            let [first, last] = ["</first ", "</last >"].map(|path| count(&exchange, path));
            assert_eq!((count(&exchange, "HTTP/1.1 200"), first, last), (3, 2, 1), "{exchange}");
        }
    }
}

#[tokio::test]
async fn a_pipelined_head_is_checked_as_strictly() {
    let odd = [
        "GET /second HTTP/1.1\nhost: a\n\n",
        "GET /second HTTP/1.1\r\nhost: a\nx: y\r\n\r\n",
        "\r\nGET /second HTTP/1.1\nhost: a\r\n\r\n",
        "\nGET /second HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /second HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /second HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    ];
    for first in [GET, POST, CHUNKS] {
        for second in odd {
            let all = [first, second, GET].concat();
            for exchange in exchange_both_ways(all.as_bytes()).await {
                let [fine, refused] = ["HTTP/1.1 200", "HTTP/1.1 400"].map(|status| count(&exchange, status));
                assert_eq!((fine, refused), (1, 1), "{second:?} behind {first:?}: {exchange}");
                assert_eq!(
                    count(&exchange, "connection: close"),
                    1,
                    "{second:?} behind {first:?}: {exchange}"
                );
                assert!(!exchange.contains("/second"), "{second:?} behind {first:?}: {exchange}");
            }
        }
    }
    for alone in odd {
        for exchange in exchange_both_ways([alone, GET].concat().as_bytes()).await {
            assert!(
                exchange.starts_with("HTTP/1.1 400") && count(&exchange, "HTTP/1.1") == 1,
                "{alone:?}: {exchange}"
            );
        }
    }
}

/// The length of a chunked body is only known at its end, so data that arrives with it cannot be distinguished from it.
#[tokio::test]
async fn nothing_may_follow_a_chunked_request_before_its_response() {
    for [begun, rest] in
        [["GET /second HTTP/1.1\nhost: ", "a\r\n\r\n"], ["GET /second HTTP/1.1\r\nhost: a\r\n\r\n", ""]]
    {
        let exchange = exchange(&[[CHUNKS, begun].concat().as_bytes(), rest.as_bytes()]).await;
        let [fine, refused] = ["HTTP/1.1 200", "HTTP/1.1 400"].map(|status| count(&exchange, status));
        assert_eq!((fine, refused, exchange.contains("/second")), (1, 1, false), "{begun:?}: {exchange}");
    }
}

#[tokio::test]
async fn a_chunked_request_keeps_its_connection_open() {
    let (address, _server) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _ =
                serve(stream, ConnectionLimit::new(1).register(), BOUNDS, CancellationToken::new(), answer)
                    .await;
        });
        (address, server)
    };
    let mut client = TcpStream::connect(address).await.unwrap();
    for request in [CHUNKS, POST, CHUNKS, GET] {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b">") {
            let read = timeout(SOON, client.read_buf(&mut all)).await.expect("no answer").unwrap();
            assert!(read > 0, "closed at {request:?}: {}", all.escape_ascii());
        }
        assert!(all.starts_with(b"HTTP/1.1 200"), "{request:?}: {}", all.escape_ascii());
    }
}

#[tokio::test]
async fn the_rest_of_a_body_after_an_early_response_is_not_a_head() {
    for rest in ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "3\r\na\nb\r\n0\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let slot = ConnectionLimit::new(1).register();
        tokio::spawn(serve(stream, slot, BOUNDS, CancellationToken::new(), answer));
        let begun = "POST /early HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
        client.write_all(begun.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b"<early>") {
            assert!(client.read_buf(&mut all).await.unwrap() > 0);
        }
        client.write_all([rest, GET].concat().as_bytes()).await.unwrap();
        let mut last = Vec::new();
        let read = timeout(SOON, client.read_to_end(&mut last)).await;
        assert!(read.is_ok() && last.starts_with(b"HTTP/1.1 400"), "{rest:?}: {}", last.escape_ascii());
    }
}

#[tokio::test]
async fn data_after_an_upgrade_is_passed_on_unchanged() {
    let upgrade = "GET /up HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for parts in [&[upgrade, ECHOED][..], &[&[upgrade, ECHOED].concat()]] {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let exchange = exchange(&parts).await;
        assert!(exchange.starts_with("HTTP/1.1 101"), "{exchange}");
        assert!(exchange.ends_with(&format!("\r\n\r\n{ECHOED}")), "{exchange:?}");
    }
}
