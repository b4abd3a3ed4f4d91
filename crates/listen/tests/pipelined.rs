//! Requests that follow each other on one connection, and heads that two readers would read in two ways.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listen::serve::{Bounds, serve};
use listen::{Places, shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What is said to the echo.
const TOLD: &str = "one\n\r\n\r\ntwo";

const SOON: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { head: Duration::from_secs(5), max_headers: 20, read_bytes: 16 * 1024 };

/// Answers with the path and the body of each request, and an upgrade with what is said after it.
async fn answer(mut request: Request<Incoming>) -> Response<String> {
    if let Err(problem) = shape::check(&request) {
        return Response::builder().status(400).body(problem.to_owned()).unwrap();
    }
    if request.headers().contains_key("upgrade") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut heard = [0; TOLD.len()];
            stream.read_exact(&mut heard).await.unwrap();
            stream.write_all(&heard).await.unwrap();
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

/// Sends each part when the one before has had its time on the way, and hears everything until the connection ends.
async fn heard(parts: &[&[u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.set_nodelay(true).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let seat = Places::new(1).sit_down();
    let server = tokio::spawn(serve(stream, seat, BOUNDS, CancellationToken::new(), answer));
    for part in parts {
        // It may have hung up on what came before.
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

/// The same, however the bytes come: at once, and each by itself.
async fn heard_either_way(bytes: &[u8]) -> [String; 2] {
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    [heard(&[bytes]).await, heard(&single).await]
}

fn count(heard: &str, what: &str) -> usize {
    heard.matches(what).count()
}

const GET: &str = "GET /first HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST /first HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\na\nb\r\nc";
const CHUNKS: &str =
    "POST /first HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n";

#[tokio::test]
async fn requests_that_wait_for_no_answer_are_answered_in_order() {
    for first in [GET, POST] {
        let all = [first, first, "\r\nGET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"].concat();
        for heard in heard_either_way(all.as_bytes()).await {
            let [first, last] = ["</first ", "</last >"].map(|path| count(&heard, path));
            assert_eq!((count(&heard, "HTTP/1.1 200"), first, last), (3, 2, 1), "{heard}");
        }
    }
}

#[tokio::test]
async fn a_head_behind_a_valid_request_is_read_as_strictly() {
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
            for heard in heard_either_way(all.as_bytes()).await {
                let [fine, refused] = ["HTTP/1.1 200", "HTTP/1.1 400"].map(|status| count(&heard, status));
                assert_eq!((fine, refused), (1, 1), "{second:?} behind {first:?}: {heard}");
                assert_eq!(count(&heard, "connection: close"), 1, "{second:?} behind {first:?}: {heard}");
                assert!(!heard.contains("/second"), "{second:?} behind {first:?}: {heard}");
            }
        }
    }
    for alone in odd {
        for heard in heard_either_way([alone, GET].concat().as_bytes()).await {
            assert!(
                heard.starts_with("HTTP/1.1 400") && count(&heard, "HTTP/1.1") == 1,
                "{alone:?}: {heard}"
            );
        }
    }
}

/// Where a body of chunks ends is known by its end alone, so what comes with it is not told from it.
#[tokio::test]
async fn nothing_follows_chunks_before_their_answer() {
    for [begun, rest] in
        [["GET /second HTTP/1.1\nhost: ", "a\r\n\r\n"], ["GET /second HTTP/1.1\r\nhost: a\r\n\r\n", ""]]
    {
        let heard = heard(&[[CHUNKS, begun].concat().as_bytes(), rest.as_bytes()]).await;
        let [fine, refused] = ["HTTP/1.1 200", "HTTP/1.1 400"].map(|status| count(&heard, status));
        assert_eq!((fine, refused, heard.contains("/second")), (1, 1, false), "{begun:?}: {heard}");
    }
}

#[tokio::test]
async fn chunks_keep_their_connection() {
    let (address, _server) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = serve(stream, Places::new(1).sit_down(), BOUNDS, CancellationToken::new(), answer).await;
        });
        (address, server)
    };
    let mut client = TcpStream::connect(address).await.unwrap();
    for request in [CHUNKS, POST, CHUNKS, GET] {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        while !all.ends_with(b">") {
            let read = timeout(SOON, client.read_buf(&mut all)).await.expect("no answer").unwrap();
            assert!(read > 0, "hung up on {request:?}: {}", all.escape_ascii());
        }
        assert!(all.starts_with(b"HTTP/1.1 200"), "{request:?}: {}", all.escape_ascii());
    }
}

#[tokio::test]
async fn the_rest_of_a_body_that_was_answered_early_is_no_head() {
    for rest in ["0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "3\r\na\nb\r\n0\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let seat = Places::new(1).sit_down();
        tokio::spawn(serve(stream, seat, BOUNDS, CancellationToken::new(), answer));
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
async fn what_follows_an_upgrade_is_passed_on_as_it_is() {
    let upgrade = "GET /up HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for parts in [&[upgrade, TOLD][..], &[&[upgrade, TOLD].concat()]] {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        let heard = heard(&parts).await;
        assert!(heard.starts_with("HTTP/1.1 101"), "{heard}");
        assert!(heard.ends_with(&format!("\r\n\r\n{TOLD}")), "{heard:?}");
    }
}
