//! Clients of the proxy on real sockets. The tests act as sandboxd.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::{AcceptConnection, OutgoingConnection, Refused, RefusedReason, Via};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tunnels::Tunnels;
use crate::tunnels::pending::Timeouts;
use crate::tunnels::tests::{Call, SOON};

/// Timeout of tests that wait for it to expire.
const SHORT: Duration = Duration::from_millis(200);

struct Fixture {
    tunnels: Arc<Tunnels>,
    proxy: SocketAddr,
    next_request: Pin<Box<dyn Stream<Item = OutgoingConnection> + Send>>,
}

impl Fixture {
    async fn new() -> Self {
        let timeouts = Timeouts { head: SOON, responder: SOON, decision: SOON };
        let mut fixture = Self::without_sandboxd(timeouts).await;
        fixture.next_request = fixture.tunnels.pending.requests_for_responder().boxed();
        fixture
    }

    async fn without_sandboxd(timeouts: Timeouts) -> Self {
        let tunnels = Tunnels::with_timeouts(timeouts);
        tunnels.start_proxy(0).await.unwrap();
        let proxy = tunnels.proxy_addresses()[0];
        Self { tunnels, proxy, next_request: futures::stream::empty().boxed() }
    }

    async fn client(&self, expected: impl AsRef<[u8]>) -> TcpStream {
        let mut client = TcpStream::connect(self.proxy).await.unwrap();
        client.write_all(expected.as_ref()).await.unwrap();
        client
    }

    async fn next_request(&mut self) -> OutgoingConnection {
        timeout(SOON, self.next_request.next()).await.unwrap().unwrap()
    }

    /// Accepts the next request, which must be this one.
    async fn accept_next(&mut self, host: &str, port: u32, via: Via) -> Call {
        let next_request = self.next_request().await;
        assert_eq!((next_request.host.as_str(), next_request.port, next_request.via()), (host, port, via));
        Call::accepting(&self.tunnels, &next_request).await
    }

    async fn refuse_next(&mut self, reason: RefusedReason, text: &str) {
        let refused = Some(Refused { reason: reason.into(), text: text.into() });
        let accept = AcceptConnection { id: self.next_request().await.id, refused };
        assert!(self.tunnels.accept(&accept).await.unwrap().is_none());
    }
}

async fn read_until(client: &mut TcpStream, last: &str) -> String {
    let mut all = Vec::new();
    while !all.ends_with(last.as_bytes()) {
        let read = timeout(SOON, client.read_u8()).await.expect("an answer");
        all.push(read.unwrap_or_else(|error| panic!("{error} behind {:?}", String::from_utf8_lossy(&all))));
    }
    String::from_utf8(all).unwrap()
}

async fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    timeout(SOON, client.read_to_end(&mut all)).await.expect("an end").unwrap();
    all
}

async fn read<const LENGTH: usize>(client: &mut TcpStream) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    timeout(SOON, client.read_exact(&mut bytes)).await.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn connect_makes_a_tunnel_that_includes_early_data() {
    let mut fixture = Fixture::new().await;
    let mut client = fixture.client("CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\nhello").await;
    let mut call = fixture.accept_next("Example.org", 443, Via::Connect).await;
    let head = read_until(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(call.read_until("hello").await, "hello");
    call.send(b"welcome").await;
    assert_eq!(&read::<7>(&mut client).await, b"welcome");
    client.shutdown().await.unwrap();
    assert_eq!(call.read_to_end().await, b"");
    call.send(b"bye").await;
    call.end().await;
    assert_eq!(read_to_end(&mut client).await, b"bye");
    assert_eq!(call.next().await, None);
}

#[tokio::test]
async fn connect_accepts_addresses_with_and_without_brackets() {
    let mut fixture = Fixture::new().await;
    let _six = fixture.client("CONNECT [2001:db8::1]:8443 HTTP/1.1\r\n\r\n").await;
    fixture.accept_next("2001:db8::1", 8443, Via::Connect).await;
    let _four = fixture.client("CONNECT 192.0.2.1:443 HTTP/1.0\r\n\r\n").await;
    fixture.accept_next("192.0.2.1", 443, Via::Connect).await;
}

#[tokio::test]
async fn a_request_with_a_full_url_is_forwarded_to_the_host() {
    let mut fixture = Fixture::new().await;
    let mut client = fixture
        .client(
            "POST http://Example.org:8080/a?b=c HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\n\
             Proxy-Authorization: Basic eA==\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Yours: 2\r\n\
             Upgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        )
        .await;
    let mut call = fixture.accept_next("Example.org", 8080, Via::Http).await;
    let head = call.read_until("\r\n0\r\n\r\n").await.to_ascii_lowercase();
    assert!(head.starts_with("post /a?b=c http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nhost: example.org:8080\r\n") && head.contains("\r\nx-yours: 2\r\n"), "{head}");
    assert!(head.contains("\r\n\r\n4\r\nbody\r\n"), "{head}");
    for gone in ["other", "proxy-", "x-mine", "h2c", "connection:"] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }
    call.send(b"HTTP/1.1 201 Made\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
    let answer = read_until(&mut client, "ok").await.to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 201 "), "{answer}");
    assert!(!answer.contains("connection: close"), "it is the host's, not the client's: {answer}");
}

#[tokio::test]
async fn requests_on_one_connection_each_go_to_their_host() {
    let mut fixture = Fixture::new().await;
    let mut client = fixture.client("GET http://one/ HTTP/1.1\r\nHost: one\r\n\r\n").await;
    let mut one = fixture.accept_next("one", 80, Via::Http).await;
    assert!(one.read_until("\r\n\r\n").await.contains("host: one\r\n"));
    one.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n1st").await;
    read_until(&mut client, "1st").await;

    client.write_all(b"GET http://one/again HTTP/1.1\r\nHost: one\r\n\r\n").await.unwrap();
    assert!(one.read_until("\r\n\r\n").await.starts_with("GET /again "), "the connection was kept");
    one.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n2nd").await;
    read_until(&mut client, "2nd").await;

    client.write_all(b"GET http://two/ HTTP/1.1\r\nHost: one\r\n\r\n").await.unwrap();
    let mut two = fixture.accept_next("two", 80, Via::Http).await;
    assert!(two.read_until("\r\n\r\n").await.contains("host: two\r\n"));
    two.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n3rd").await;
    read_until(&mut client, "3rd").await;
    one.read_to_end().await;

    // A connection that its host has closed is not reused.
    two.end().await;
    two.read_to_end().await;
    client.write_all(b"GET http://two/ HTTP/1.1\r\nHost: two\r\n\r\n").await.unwrap();
    let mut again = fixture.accept_next("two", 80, Via::Http).await;
    again.read_until("\r\n\r\n").await;
    again.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n4th").await;
    read_until(&mut client, "4th").await;
}

#[tokio::test]
async fn a_truncated_response_is_not_taken_as_complete() {
    let mut fixture = Fixture::new().await;
    for (cut, whole) in [(true, false), (false, true)] {
        let mut client = fixture.client("GET http://one/ HTTP/1.1\r\nHost: one\r\n\r\n").await;
        let mut call = fixture.accept_next("one", 80, Via::Http).await;
        call.read_until("\r\n\r\n").await;
        call.send(b"HTTP/1.1 200 OK\r\n\r\nthe beginning").await;
        read_until(&mut client, "the beginning\r\n").await;
        if cut {
            call.reset().await
        } else {
            call.end().await
        }
        let mut rest = Vec::new();
        // A chunked body has its own end. How the connection ends does not matter.
        let mut ended = Box::pin(client.read_to_end(&mut rest));
        let _ = timeout(SHORT, &mut ended).await;
        drop(ended);
        assert_eq!(rest.ends_with(b"0\r\n\r\n"), whole, "cut: {cut}, {:?}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn socks_passes_on_names_and_addresses() {
    let mut fixture = Fixture::new().await;
    let cases: [(&[u8], &str); 3] = [
        (&[1, 192, 0, 2, 1], "192.0.2.1"),
        (b"\x03\x0bexample.org", "example.org"),
        (&[4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "2001:db8::1"),
    ];
    for (address, host) in cases {
        let mut client = fixture.client([5, 2, 2, 0]).await;
        assert_eq!(read(&mut client).await, [5, 0]);
        client.write_all(&[&[5, 1, 0], address, &[0x1f, 0x90]].concat()).await.unwrap();
        let mut call = fixture.accept_next(host, 8080, Via::Socks).await;
        assert_eq!(read::<10>(&mut client).await[..2], [5, 0]);
        client.write_all(b"ping").await.unwrap();
        assert_eq!(call.read_until("ping").await, "ping");
        call.send(b"pong").await;
        call.end().await;
        assert_eq!(read_to_end(&mut client).await, b"pong");
    }
}

#[tokio::test]
async fn socks_rejects_unsupported_requests() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client([5, 1, 2]).await;
    assert_eq!(read_to_end(&mut client).await, [5, 0xff], "only without authentication");
    let cases: [(&[u8], u8); 4] = [
        (&[5, 2, 0, 1, 192, 0, 2, 1, 0, 80], 7),
        (&[5, 1, 0, 9, 192, 0, 2, 1, 0, 80], 8),
        (&[5, 1, 0, 1, 192, 0, 2, 1, 0, 0], 1),
        (b"\x05\x01\x00\x03\x03a b\x00\x50", 1),
    ];
    for (request, code) in cases {
        let mut client = fixture.client([5, 1, 0]).await;
        assert_eq!(read(&mut client).await, [5, 0]);
        client.write_all(request).await.unwrap();
        assert_eq!(read::<10>(&mut client).await[1], code, "{request:?}");
    }
}

#[tokio::test]
async fn a_refusal_has_a_reason_in_each_protocol() {
    let mut fixture = Fixture::new().await;
    let cases = [
        (RefusedReason::Policy, 403, 2),
        (RefusedReason::NameNotFound, 502, 4),
        (RefusedReason::Unreachable, 502, 3),
        (RefusedReason::ByPeer, 502, 5),
        (RefusedReason::Timeout, 504, 6),
        (RefusedReason::Limit, 503, 1),
        (RefusedReason::Invalid, 400, 1),
    ];
    for (reason, status, code) in cases {
        let mut client = fixture.client("CONNECT example.org:443 HTTP/1.1\r\n\r\n").await;
        fixture.refuse_next(reason, "").await;
        let answer = read_until(&mut client, "\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let body = read_until(&mut client, "\n").await;
        assert!(body.starts_with("example.org:443: ") && body.len() > 40, "{body}");

        let request = "GET http://example.org/ HTTP/1.1\r\nConnection: close\r\n\r\n";
        let mut client = fixture.client(request).await;
        fixture.refuse_next(reason, "in other words").await;
        let answer = String::from_utf8(read_to_end(&mut client).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.ends_with("\r\n\r\nin other words\n"), "{answer}");

        let mut client = fixture.client([5, 1, 0]).await;
        assert_eq!(read(&mut client).await, [5, 0]);
        client.write_all(b"\x05\x01\x00\x03\x01a\x00\x50").await.unwrap();
        fixture.refuse_next(reason, "").await;
        assert_eq!(read::<10>(&mut client).await[1], code, "{reason:?}");
    }
}

#[tokio::test]
async fn other_requests_are_rejected_or_closed() {
    let mut fixture = Fixture::new().await;
    let requests = [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this is a proxy"),
        ("GET ftp://example.org/ HTTP/1.1\r\n\r\n", "not ftp"),
        ("GET https://example.org/ HTTP/1.1\r\n\r\n", "CONNECT for everything else"),
        ("CONNECT example.org HTTP/1.1\r\n\r\n", "not a valid host and port"),
        ("CONNECT example.org:0 HTTP/1.1\r\n\r\n", "not a valid host and port"),
        ("GET http://example.org:99999/ HTTP/1.1\r\n\r\n", "not a valid host and port"),
    ];
    for (request, expected) in requests {
        let mut client = fixture.client(request).await;
        client.shutdown().await.unwrap();
        let answer = String::from_utf8(read_to_end(&mut client).await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(expected), "{request}: {answer}");
    }
    let garbage: [&[u8]; 4] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
        &[0; 64],
        b"\r\n\r\n\xff\xff",
    ];
    for bytes in garbage {
        let mut client = fixture.client(bytes).await;
        client.shutdown().await.unwrap();
        let answer = read_to_end(&mut client).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{bytes:?}: {answer:?}");
    }
    let mut client = fixture.client("GET http://one/ HTTP/1.1\r\nX-Long: ").await;
    let long = vec![b'x'; 1 << 20];
    // The proxy may close the connection before it has all of it.
    let _ = client.write_all(&long).await;
    let mut answer = [0; 12];
    let read = timeout(SOON, client.read_exact(&mut answer)).await.unwrap();
    assert!(read.is_err() || &answer == b"HTTP/1.1 431", "{answer:?}");

    let _client = fixture.client("CONNECT example.org:443 HTTP/1.1\r\n\r\n").await;
    fixture.accept_next("example.org", 443, Via::Connect).await;
}

#[tokio::test]
async fn silent_clients_are_disconnected() {
    let timeouts = Timeouts { head: SHORT, responder: SHORT, decision: SHORT };
    let fixture = Fixture::without_sandboxd(timeouts).await;
    for slow in ["", "GET http://one/ HT", "\x05", "\x05\x01", "\x05\x01\x00\x05\x01"] {
        let mut client = fixture.client(slow).await;
        let answer = read_to_end(&mut client).await;
        assert!(answer.len() < 200, "{answer:?}");
    }
}

#[tokio::test]
async fn waits_for_sandboxd_time_out() {
    let timeouts = Timeouts { head: SOON, responder: SHORT, decision: SHORT };
    let fixture = Fixture::without_sandboxd(timeouts).await;
    let request = "GET http://one/ HTTP/1.1\r\nConnection: close\r\n\r\n";
    let answer = read_to_end(&mut fixture.client(request).await).await;
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "responder to ask");
    let mut client = fixture.client([5, 1, 0]).await;
    read::<2>(&mut client).await;
    client.write_all(b"\x05\x01\x00\x03\x01a\x00\x50").await.unwrap();
    assert_eq!(read::<10>(&mut client).await[1], 1);

    let mut responder = fixture.tunnels.pending.requests_for_responder().boxed();
    let mut client = fixture.client(request).await;
    let next_request = responder.next().await.unwrap();
    assert!(read_to_end(&mut client).await.starts_with(b"HTTP/1.1 504 "), "responder answers");
    let late = AcceptConnection { id: next_request.id, refused: None };
    assert!(fixture.tunnels.accept(&late).await.is_err(), "responder waits any more");
}

#[tokio::test]
async fn a_new_responder_receives_pending_requests() {
    let mut fixture = Fixture::new().await;
    let _client = fixture.client("CONNECT example.org:443 HTTP/1.1\r\n\r\n").await;
    let first = fixture.next_request().await;
    let mut newer = fixture.tunnels.pending.requests_for_responder().boxed();
    assert_eq!(timeout(SOON, newer.next()).await.unwrap(), Some(first));
    assert_eq!(
        timeout(SOON, fixture.next_request.next()).await.unwrap(),
        None,
        "only one is responder at a time"
    );
}

#[tokio::test]
async fn a_disconnecting_client_closes_its_tunnel() {
    let mut fixture = Fixture::new().await;
    let client = fixture.client("CONNECT example.org:443 HTTP/1.1\r\n\r\n").await;
    let mut call = fixture.accept_next("example.org", 443, Via::Connect).await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert!(matches!(call.next().await, Some(Part::Reset(_))));
    assert_eq!(call.next().await, None);
}
