//! Connections: kept alive for their clients, and closed when other connections use up all slots.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandbox_api::TOKEN_HEADER;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::harness::{Daemon, TOKEN, until};
use crate::support::http::{Answer, HttpClient, Wire};
use crate::support::visitor::{PORT, links, node, sandbox_with_port, serve, url_parts, visit, visit_with};

/// How much longer the fastest of nine responses may take while other connections use all slots.
const DELAY: Duration = Duration::from_millis(100);
/// Time limit for the slowest one. It is well below the time that a head may take.
const SLOWEST: Duration = Duration::from_secs(2);

/// Both ends of all connections are in this process.
fn raise_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
}

/// Opens this number of connections to a port and sends `begun` on each.
async fn idle_connections(port: u16, count: usize, begun: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    streams
}

/// Measures an act nine times. Returns the shortest and the longest time.
async fn times_of<F: Future>(mut act: impl FnMut() -> F) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..9 {
        let began = Instant::now();
        act().await;
        times.push(began.elapsed());
    }
    times.sort();
    (times[0], times[8])
}

/// Asserts that idle connections delay no other client. The times without and with them are of the same machine, which
/// may be busy.
fn assert_not_delayed(what: &str, without: (Duration, Duration), with: (Duration, Duration)) {
    let limit = (2 * without.0).max(without.0 + DELAY);
    assert!(with.0 < limit && with.1 < SLOWEST.max(2 * without.1), "{what}: {without:?}, then {with:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_use_every_slot_delay_no_client() {
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
    let visit_health = || async {
        // Each request uses a new connection.
        let answer = Answer::to(HttpClient::of(&daemon).without_token("GET", "/v1/health")).await;
        assert_eq!(answer.status, 200);
    };
    let half = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-lo";
    let unread = "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    for (count, begun) in [(1100, ""), (1600, half), (1100, unread)] {
        let without = times_of(visit_health).await;
        let held = idle_connections(port, count, begun).await;
        assert_not_delayed(&format!("{count} that sent {begun:?}"), without, times_of(visit_health).await);
        assert_eq!(
            list(&mut kept).await.status,
            200,
            "the connection of an authenticated client is closed last"
        );
        drop(held);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_to_a_published_port_and_to_a_links_port_delay_no_visitor() {
    raise_open_files();
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end('a page')")).await;
    let [_, own] = links(&daemon, &sandbox).await;
    let followed = visit(&own).await;
    let cookie = followed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let base = format!("http://{}/", url_parts(&own).host);
    let visit_link = || async {
        assert_eq!(visit_with(&base, &[("cookie", &cookie)]).await.body, "a page");
    };
    let without = times_of(visit_link).await;
    let held = idle_connections(url_parts(&own).port, 1100, "GET / HTTP/1.1\r\nx-lo").await;
    assert_not_delayed("a visitor of a link", without, times_of(visit_link).await);
    drop(held);

    let path = format!("/v1/sandboxes/{sandbox}/ports/{PORT}?style=publish");
    let published = HttpClient::of(&daemon).get(&path).await.json()["hostPort"].as_u64().unwrap() as u16;
    let url = format!("http://127.0.0.1:{published}/");
    assert_eq!(visit(&url).await.body, "a page");
    let held = idle_connections(published, 160, "").await;
    until("a visitor is served", || async { visit(&url).await.body == "a page" }).await;
    drop(held);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_announce_the_keep_alive_timeout_and_the_close() {
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
    let api = HttpClient::of(&daemon);
    let [by_name, _] = links(&daemon, &sandbox).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = format!("http://127.0.0.1:{}/", url_parts(&by_name).port);
    let visited = http.get(address).header("host", url_parts(&by_name).host).send().await.unwrap();
    assert_eq!(
        visited.headers()["keep-alive"],
        "timeout=120",
        "the timeout is the gateway's, not the server's"
    );

    // The daemon stops while a request is in progress. Its response is the last one on the connection.
    let path = format!("/v1/sandboxes/{sandbox}/commands");
    let body = serde_json::json!({ "script": "sleep 2", "detached": true });
    let command = api.post(&path, &body).await.json()["commandId"].as_str().unwrap().to_owned();
    let mut wire = Wire::to(&daemon).await;
    let wait =
        format!("GET {path}/{command}/wait HTTP/1.1\r\nhost: localhost\r\n{TOKEN_HEADER}: {TOKEN}\r\n\r\n");
    wire.send(wait.as_bytes()).await.unwrap();
    wire.is_read().await;
    let (_home, answer) = tokio::join!(daemon.stop(), wire.answer());
    assert_eq!((answer.status, answer.header("connection")), (200, "close"), "{answer:?}");
}
