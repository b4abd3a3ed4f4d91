//! Connections: kept for their clients, and closed for others where strangers have taken all places.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox_api::TOKEN_HEADER;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::harness::{Daemon, TOKEN, until};
use crate::support::http::{Answer, Asker, Wire};
use crate::support::visitor::{PORT, links, node, place, sandbox_with_port, serve, visit, visit_with};

/// How long an answer may take while strangers hold all places, at least once of nine times: the machine may be busy.
const SWIFT: Duration = Duration::from_millis(100);
/// And the slowest: well below the time that a head may take.
const SLOWEST: Duration = Duration::from_secs(2);

/// Both ends of all the connections are in this process.
fn raise_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
}

/// So many connections to a port, each of which has sent `begun`.
async fn strangers(port: u16, count: usize, begun: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    streams
}

/// Asserts that nobody waits for the strangers.
async fn is_swift<F: Future>(what: &str, mut act: impl FnMut() -> F) {
    let mut times = Vec::new();
    for _ in 0..9 {
        let began = Instant::now();
        act().await;
        times.push(began.elapsed());
    }
    times.sort();
    assert!(times[0] < SWIFT && times[8] < SLOWEST, "{what}: {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_who_take_every_place_delay_nobody() {
    raise_open_files();
    let daemon = Daemon::start().await;
    let port = daemon.base.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut kept = Wire::to(&daemon).await;
    let list = async |kept: &mut Wire| {
        kept.begin("GET", "/v1/sandboxes").await;
        kept.send(b"\r\n").await.unwrap();
        kept.answer().await
    };
    assert_eq!(list(&mut kept).await.status, 200);
    let half = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-lo";
    let unread = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    for (count, begun) in [(1100, ""), (1600, half), (1100, unread)] {
        let held = strangers(port, count, begun).await;
        is_swift(&format!("{count} that sent {begun:?}"), || async {
            // Each time a newcomer.
            let answer = Answer::to(Asker::of(&daemon).without_token("GET", "/v1/health")).await;
            assert_eq!(answer.status, 200);
        })
        .await;
        assert_eq!(list(&mut kept).await.status, 200, "a known client's connection is closed last");
        drop(held);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_at_a_published_port_and_at_a_links_own_delay_no_visitor() {
    raise_open_files();
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('a page')")).await;
    let [_, own] = links(&daemon, &sandbox).await;
    let followed = visit(&own).await;
    let cookie = followed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let base = format!("http://{}/", place(&own).host);
    let held = strangers(place(&own).port, 1100, "GET / HTTP/1.1\r\nx-lo").await;
    is_swift("a visitor of a link", || async {
        assert_eq!(visit_with(&base, &[("cookie", &cookie)]).await.body, "a page");
    })
    .await;
    drop(held);

    let path = format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish");
    let published = Asker::of(&daemon).get(&path).await.json()["hostPort"].as_u64().unwrap() as u16;
    let url = format!("http://127.0.0.1:{published}/");
    assert_eq!(visit(&url).await.body, "a page");
    let held = strangers(published, 160, "").await;
    until("a visitor finds a place", || async { visit(&url).await.body == "a page" }).await;
    drop(held);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_says_for_how_long_and_a_last_answer_that_it_is_the_last() {
    let daemon = Daemon::start().await;
    let mut wire = Wire::to(&daemon).await;
    for _ in 0..2 {
        wire.send(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.header("keep-alive")), (200, "timeout=120"));
    }
    wire.send(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = wire.answer().await;
    assert_eq!((answer.header("connection"), answer.header("keep-alive")), ("close", ""));

    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('a page')")).await;
    let asker = Asker::of(&daemon);
    let [by_name, _] = links(&daemon, &sandbox).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = format!("http://127.0.0.1:{}/", place(&by_name).port);
    let visited = http.get(address).header("host", place(&by_name).host).send().await.unwrap();
    assert_eq!(visited.headers()["keep-alive"], "timeout=120", "the gateway's own, not the server's");

    // A stop while a request is under way: its answer is the last.
    let path = format!("/v1/sandboxes/{sandbox}/commands");
    let body = serde_json::json!({ "script": "sleep 2", "detached": true });
    let command = asker.post(&path, &body).await.json()["commandId"].as_str().unwrap().to_owned();
    let mut wire = Wire::to(&daemon).await;
    let wait =
        format!("GET {path}/{command}/wait HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n\r\n");
    wire.send(wait.as_bytes()).await.unwrap();
    wire.is_read().await;
    let (_home, answer) = tokio::join!(daemon.stop(), wire.answer());
    assert_eq!((answer.status, answer.header("connection")), (200, "close"), "{answer:?}");
}
