//! The gate with real connections on this machine's loopback, which is opened for it where a test needs to get through.

mod tls;

use std::pin::Pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::*;
use sandboxd_metrics::Metrics;
use sandboxd_model::NetworkMode;

const SOON: Duration = Duration::from_secs(10);

fn policy(mode: NetworkMode, allow: &[String]) -> NetworkPolicy {
    NetworkPolicy::from_texts(mode, allow).unwrap()
}

fn gate(opened: &[&str], hosts: &[(&str, &str)]) -> Gate {
    let mut settings = Settings {
        allow_cidr: opened.iter().map(|range| range.parse().unwrap()).collect(),
        ..Settings::default()
    };
    for (name, address) in hosts {
        settings.hosts.entry((*name).to_owned()).or_default().push(address.parse().unwrap());
    }
    Gate::new(settings, Vec::new())
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn one_place() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

async fn reason(gate: &Gate, policy: &NetworkPolicy, name: &str, port: u16) -> Option<DenialReason> {
    match gate.connect(policy, &host(name), port, &one_place()).await {
        Err(Error::Denied { reason }) => Some(reason),
        _ => None,
    }
}

#[tokio::test]
async fn a_name_with_one_address_that_is_not_public_leads_nowhere() {
    let addresses = [
        "10.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ];
    let open = policy(NetworkMode::Default, &[]);
    for address in addresses {
        let only = gate(&[], &[("a.example", address)]);
        assert_eq!(reason(&only, &open, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        let both =
            gate(&[], &[("a.example", "198.51.100.9"), ("a.example", "8.8.8.8"), ("a.example", address)]);
        assert_eq!(reason(&both, &open, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        let named = policy(NetworkMode::Allowlist, &[address.to_owned(), "a.example".into()]);
        assert_eq!(reason(&only, &named, "a.example", 443).await, Some(DenialReason::NotPublic), "{address}");
        assert_eq!(reason(&only, &named, address, 443).await, Some(DenialReason::NotPublic), "{address}");
    }
}

#[test]
fn hosts_on_this_machines_links_are_not_public_unless_they_are_opened() {
    let here = Here::at(&["192.0.2.2/24", "2600:1::5/64"]);
    let reached = |gate: &Gate, address: &str| gate.may_reach(&here, address.parse().unwrap(), 443);
    let closed = gate(&[], &[]);
    for address in ["2600:1::5", "2600:1::9", "192.0.2.9"] {
        assert!(!reached(&closed, address), "{address}");
    }
    for address in ["2600:1:0:1::9", "203.0.113.9", "8.8.8.8"] {
        assert!(reached(&closed, address), "{address}");
    }
    let opened = gate(&["2600:1::8/125"], &[]);
    assert!(reached(&opened, "2600:1::9") && !reached(&opened, "2600:1::10"));
}

#[tokio::test]
async fn the_connection_is_made_to_the_address_that_was_checked() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    // What the name means first, and what it means to whoever asks once more.
    static MEANINGS: AtomicU8 = AtomicU8::new(1);
    let mut gate = gate(&["127.0.0.1/32"], &[]);
    gate.resolver.resolve = |_| Ok(vec![[127, 0, 0, MEANINGS.fetch_add(1, Ordering::SeqCst)].into()]);
    let open = policy(NetworkMode::Default, &[format!("*:{port}")]);
    let far = gate.connect(&open, &host("a.example"), port, &one_place()).await.unwrap();
    assert_eq!(far.stream.peer_addr().unwrap(), server.local_addr().unwrap());
    assert_eq!(MEANINGS.load(Ordering::SeqCst), 2, "it was asked once");
    assert_eq!(
        reason(&gate, &open, "a.example", port).await,
        Some(DenialReason::NotPublic),
        "the second meaning"
    );
}

#[tokio::test]
async fn what_the_operator_opens_is_reached_but_for_the_daemons_own_doors() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port();
    let named = policy(NetworkMode::Allowlist, &[format!("127.0.0.1:{port}")]);
    assert_eq!(reason(&gate(&[], &[]), &named, "127.0.0.1", port).await, Some(DenialReason::NotPublic));
    let opened = gate(&["127.0.0.0/8"], &[]);
    assert!(opened.connect(&named, &host("127.0.0.1"), port, &one_place()).await.is_ok());
    let door = Gate { shut: Shut::new(vec![1..=1, port..=port]), ..gate(&["127.0.0.0/8"], &[]) };
    assert_eq!(reason(&door, &named, "127.0.0.1", port).await, Some(DenialReason::NotPublic));
    let named = policy(NetworkMode::Allowlist, &[format!("127.0.0.2:{port}")]);
    assert!(matches!(
        opened.connect(&named, &host("127.0.0.2"), port, &one_place()).await,
        Err(Error::ByPeer { .. })
    ));
}

#[tokio::test]
async fn a_name_that_is_not_there_is_no_denial() {
    let gate = gate(&[], &[]);
    let open = policy(NetworkMode::Default, &[]);
    let answer = gate.connect(&open, &host("nowhere.invalid"), 443, &one_place()).await;
    assert!(matches!(answer, Err(Error::NotFound { .. } | Error::Timeout)), "{answer:?}");
}

#[tokio::test]
async fn whoever_has_left_keeps_his_place_until_the_resolver_is_done() {
    static DONE: Barrier = Barrier::new(2);
    let mut gate = gate(&[], &[]);
    gate.resolver.resolve = |_| {
        DONE.wait();
        Ok(Vec::new())
    };
    let (open, lookups) = (policy(NetworkMode::Default, &[]), one_place());
    let until_places = async |count| {
        let wait = async {
            while lookups.available_permits() != count {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, wait).await.unwrap();
    };
    let host = host("slow.example");
    let asked = gate.connect(&open, &host, 443, &lookups);
    tokio::select! {
        _ = asked => panic!("nobody has answered"),
        () = until_places(0) => {}
    }
    let places = lookups.available_permits();
    spawn_blocking(|| DONE.wait()).await.unwrap();
    assert_eq!(places, 0, "the thread was still busy");
    until_places(1).await;
}

#[tokio::test]
async fn behind_a_proxy_hosts_are_asked_of_it_and_what_is_not_public_is_not() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Upstream::parse(&format!("http://me:secret@{}", proxy.local_addr().unwrap())).unwrap();
    let upstreams = Upstreams { https: Some(upstream), ..Upstreams::default() };
    let hosts = [("in.example".to_owned(), vec!["10.0.0.1".parse().unwrap()])].into();
    let gate = Gate::new(Settings { upstreams, hosts, ..Settings::default() }, Vec::new());
    let open = policy(NetworkMode::Default, &[]);
    assert_eq!(reason(&gate, &open, "in.example", 443).await, Some(DenialReason::NotPublic));
    let serve = async {
        let mut heads = Vec::new();
        for answer in
            ["HTTP/1.1 200 OK\r\n\r\nfirst words", "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"]
        {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let length = stream.read(&mut head).await.unwrap();
            heads.push(String::from_utf8(head[..length].to_vec()).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    };
    let ask = async {
        let lookups = one_place();
        let asked =
            gate.connect(&open, &host("out.invalid"), 443, &lookups).await.map(|far| far.early.clone());
        let refused = gate.connect(&open, &host("out.invalid"), 80, &lookups).await.map(drop);
        (asked, refused)
    };
    let (heads, (asked, refused)) = timeout(SOON * 3, async { tokio::join!(serve, ask) }).await.unwrap();
    assert!(heads[0].starts_with("CONNECT out.invalid:443 HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains("proxy-authorization: Basic bWU6c2VjcmV0"), "{}", heads[0]);
    assert!(heads[1].starts_with("CONNECT out.invalid:80 "), "{}", heads[1]);
    // Whether it came with the head or after it.
    assert!(b"first words".starts_with(&asked.unwrap()[..]));
    assert!(matches!(refused, Err(Error::Upstream { status: 403 })), "{refused:?}");
}

/// A sandbox's end that tells when it is dropped before its client has left: a tunnel is cut off then.
struct Near {
    stream: DuplexStream,
    has_ended: bool,
    is_cut: Arc<AtomicBool>,
}

impl Drop for Near {
    fn drop(&mut self) {
        self.is_cut.store(!self.has_ended, Ordering::SeqCst);
    }
}

impl AsyncRead for Near {
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

impl AsyncWrite for Near {
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

type Carrying = tokio::task::JoinHandle<Result<(), Broken>>;

/// A client's end, a server's end, and how carrying ends.
async fn carried(
    expected: Option<Expected>,
    max: Option<u64>,
    silence: Duration,
) -> (DuplexStream, tokio::net::TcpStream, Carrying) {
    let (client, near) = duplex(1 << 16);
    let meter = Meter::new(Arc::new(Tally::new(Arc::new(Metrics::new()), max)), silence);
    let (server, carrying) = carried_from(near, expected, meter).await;
    (client, server, carrying)
}

async fn carried_from(
    near: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    expected: Option<Expected>,
    meter: Meter,
) -> (tokio::net::TcpStream, Carrying) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let far = Far::new(stream, bytes::Bytes::new());
    (server, tokio::spawn(async move { carry(near, far, expected.as_ref(), &meter).await }))
}

fn web(name: &str) -> Option<Expected> {
    Some(Expected { host: host(name), port: 80 })
}

#[tokio::test]
async fn both_directions_end_by_themselves() {
    let (mut client, mut server, carrying) = carried(None, None, SOON).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    server.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "answer");
    assert!(timeout(SOON, carrying).await.unwrap().unwrap().is_ok());
}

#[tokio::test]
async fn every_request_of_plain_http_is_for_the_host_that_was_asked_for() {
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
async fn shapes_that_are_read_in_two_ways_do_not_pass() {
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
async fn a_request_behind_a_body_with_two_lengths_is_part_of_that_body() {
    let (mut client, mut server, _carrying) = carried(web("a.example"), None, SOON).await;
    let smuggled = "0\r\n\r\nGET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\ntransfer-encoding: chunked\r\ncontent-length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let mut buffer = vec![0; 4096];
    while let Ok(Ok(length @ 1..)) = timeout(Duration::from_millis(500), server.read(&mut buffer)).await {
        heard.extend_from_slice(&buffer[..length]);
        if heard.ends_with(b"0\r\n\r\n") {
            let _ = server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    }
    let heard = String::from_utf8_lossy(&heard);
    assert!(
        !heard.contains("evil.example") && !heard.to_ascii_lowercase().contains("content-length"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_on_a_port_that_is_named() {
    let expected = Some(Expected { host: host("a.example"), port: 22 });
    let (mut client, mut server, carrying) = carried(expected, None, SOON).await;
    server.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    let mut heard = [0; 11];
    timeout(SOON, client.read_exact(&mut heard)).await.unwrap().unwrap();
    client.write_all(b"SSH-2.0-y\r\n").await.unwrap();
    timeout(SOON, server.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"SSH-2.0-y\r\n");
    drop((client, server));
    let _ = timeout(SOON, carrying).await.unwrap();
}

#[tokio::test]
async fn a_server_of_http_2_that_speaks_first_is_not_left_alone() {
    let expected = Some(Expected { host: host("a.example"), port: 8080 });
    let (_client, mut server, carrying) = carried(expected, None, SOON).await;
    server.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)));
}

#[tokio::test]
async fn what_a_server_may_take_for_a_request_does_not_pass_on_a_port_that_is_named() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    let shapes =
        ["GET /a\r\n", "GET\t/a\tHTTP/1.1\r\nHost: evil.example\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for shape in shapes {
        let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
        client.write_all(shape.as_bytes()).await.unwrap();
        assert!(
            matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Mismatch)),
            "{shape:?}"
        );
        let mut rest = Vec::new();
        let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"", "{shape:?}");
    }
    let (mut client, mut server, _carrying) = carried(expected(), None, SOON).await;
    client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
    let mut heard = [0; 14];
    timeout(SOON, server.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"*1\r\n$4\r\nPING\r\n");
}

#[tokio::test]
async fn a_request_that_control_characters_hide_does_not_pass() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    let request = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let hidden = (1..0x20).chain([0x7f]).map(char::from).filter(|char| !"\t\r\n".contains(*char));
    for char in hidden {
        for at in [0, 2] {
            let mut shape = request.to_owned();
            shape.insert(at, char);
            let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
            // In two pieces, so that the first may pass as another protocol.
            for piece in [&shape[..at + 1], &shape[at + 1..]] {
                let _ = client.write_all(piece.as_bytes()).await;
                tokio::task::yield_now().await;
            }
            let ended = timeout(SOON, carrying).await.unwrap().unwrap();
            assert!(matches!(ended, Err(Broken::Mismatch)), "{char:?} at {at}: {ended:?}");
            let mut rest = Vec::new();
            let _ = timeout(SOON, server.read_to_end(&mut rest)).await.unwrap();
            assert!(rest.len() <= at + 1, "{char:?}: {}", rest.escape_ascii());
        }
    }
}

#[tokio::test]
async fn an_answer_of_http_to_another_protocol_does_not_pass() {
    let expected = || Some(Expected { host: host("a.example"), port: 8080 });
    for (answer, passes) in
        [("HTTP/1.1 200 OK\r\n\r\n", false), ("HTTQ", true), ("HT", true), ("+PONG\r\n", true)]
    {
        let (mut client, mut server, carrying) = carried(expected(), None, SOON).await;
        client.write_all(b"\x01\xffPING\r\n").await.unwrap();
        timeout(SOON, server.read_exact(&mut [0; 8])).await.unwrap().unwrap();
        let (begin, end) = answer.split_at(1);
        server.write_all(begin.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        server.write_all(end.as_bytes()).await.unwrap();
        server.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        timeout(SOON, client.read_to_string(&mut heard)).await.unwrap().unwrap();
        assert_eq!(heard, if passes { answer } else { "" });
        let ended = timeout(SOON, carrying).await.unwrap().unwrap();
        assert_eq!(ended.is_ok(), passes, "{answer}: {ended:?}");
    }
}

#[tokio::test]
async fn more_bytes_than_may_be_cut_the_connection() {
    let (mut client, mut server, carrying) = carried(None, Some(100), SOON).await;
    client.write_all(&[7; 101]).await.unwrap();
    assert!(matches!(timeout(SOON, carrying).await.unwrap().unwrap(), Err(Broken::Spent)));
    let mut all = Vec::new();
    let ended = timeout(SOON, server.read_to_end(&mut all)).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_is_ended_and_one_that_moves_is_not() {
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
async fn whoever_is_reset_resets_the_other() {
    let (client, mut server, carrying) = carried(None, None, SOON).await;
    carrying.abort();
    drop(client);
    let ended = timeout(SOON, server.read_to_end(&mut Vec::new())).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "a cut is no end");
}

/// Answers one request with `answer` and leaves.
async fn answer_and_leave(server: &mut tokio::net::TcpStream, answer: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        timeout(SOON, server.read_buf(&mut head)).await.unwrap().unwrap();
    }
    server.write_all(answer.as_bytes()).await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_after_which_a_server_leaves_arrives_whole() {
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
            let near = Near { stream, has_ended: false, is_cut: Arc::clone(&is_cut) };
            let meter = Meter::new(Arc::new(Tally::new(Arc::new(Metrics::new()), None)), SOON);
            let (mut server, carrying) = carried_from(near, web("a.example"), meter).await;
            let ask = format!("GET /x HTTP/1.1\r\nHost: a.example\r\n{own}\r\n");
            client.write_all(ask.as_bytes()).await.unwrap();
            answer_and_leave(&mut server, &answer).await;
            let mut heard = Vec::new();
            timeout(SOON, client.read_to_end(&mut heard)).await.unwrap().unwrap();
            let heard = String::from_utf8(heard).unwrap();
            assert!(heard.contains("ok"), "{round} {shown:?}: {heard:.200?}");
            assert!(heard.len() >= long.len() || answer.len() < long.len(), "{shown:?}: {}", heard.len());
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
