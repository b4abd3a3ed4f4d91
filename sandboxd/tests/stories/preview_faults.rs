//! The gateway between visitors and servers that do not speak HTTP as they should.

use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use sandbox_api::SandboxId;
use sandbox_api::port::{CreateLink, LinkStyle};
use sandboxd::model::limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Daemon, Home, SOON, until};
use crate::previews::{ECHO, web_socket};
use crate::visitor::{PORT, Place, node, place, raw, sandbox_with_port, serve, visit, visit_with};

/// Pause between two bytes of somebody who takes his time.
const DRIBBLE: Duration = Duration::from_millis(100);

/// A server without any library between it and the bytes. What comes in is noted in the file `seen`; by the path it is
/// answered with what `answer` does with `socket`.
fn bare(answer: &str) -> String {
    format!(
        "cat >bare.js <<'END'
const fs = require('fs');
require('net').createServer((socket) => {{
  let asked = false;
  socket.on('error', () => {{}});
  socket.on('data', (data) => {{
    fs.appendFileSync('seen', data);
    if (asked) return;
    asked = true;
    const path = String(data).split(' ')[1];
    {answer}
  }});
}}).listen({PORT}, '127.0.0.1');
END
: >seen
exec node bare.js"
    )
}

async fn link(daemon: &Daemon, sandbox: &SandboxId) -> String {
    daemon.client.find_port(sandbox, PORT).await.unwrap().url.unwrap()
}

async fn seen_by_the_server(daemon: &Daemon, sandbox: &SandboxId) -> String {
    String::from_utf8_lossy(&daemon.client.read_file(sandbox, "seen").await.unwrap().unwrap()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_byte_by_byte_is_cut() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let Place { host, port, .. } = place(&link(&daemon, &sandbox).await);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let began = Instant::now();
    let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\nx-long: {}", "a".repeat(1000));
    let dribble = async {
        for byte in head.bytes() {
            // Whoever is hung up on learns by writing.
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(DRIBBLE).await;
        }
    };
    timeout(limits::REQUEST_HEAD + SOON, dribble).await.expect("it is cut before its end");
    assert!(began.elapsed() >= limits::REQUEST_HEAD / 2, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_take_their_time_keep_nobody_out() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, ECHO).await;
    let url = link(&daemon, &sandbox).await;
    let Place { host, port, .. } = place(&url);
    let mut socket = web_socket(&url).await;
    let mut slow = Vec::new();
    for _ in 0..limits::MAX_VISITORS + 16 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET / HT").await.unwrap();
        slow.push(stream);
    }
    // Kept open by an answer before, which is no better.
    let kept = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for _ in 0..16 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(kept.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let visited = timeout(limits::REQUEST_HEAD / 4, visit(&url)).await.expect("nobody has to wait for them");
    assert_eq!(visited.body, "a page");
    socket.send(Message::text("still here")).await.unwrap();
    let echoed = timeout(SOON, socket.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(echoed.into_text().unwrap(), "still here", "whoever uses his place keeps it");
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_the_request_and_says_nothing_is_not_waited_for() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_PREVIEW_ANSWER_MS", "1500")).await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let polite = "if (path === '/upload') { socket.on('data', () => { const all = fs.readFileSync('seen'); \
        if (all.includes('the end')) socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok'); }); }";
    serve(&daemon, &sandbox, &bare(polite)).await;
    let url = link(&daemon, &sandbox).await;
    let began = Instant::now();
    let seen = visit_with(&url, &[("accept", "text/html")]).await;
    assert_eq!(seen.status, 504, "{seen:?}");
    assert!(seen.body.contains("does not answer") && began.elapsed() < Duration::from_secs(10), "{seen:?}");

    // It cannot answer before it has the whole of a body, and that takes as long as it takes.
    let Place { host, port, .. } = place(&url);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head =
        format!("POST /upload HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 47\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..40 {
        stream.write_all(b".").await.unwrap();
        sleep(DRIBBLE).await;
    }
    stream.write_all(b"the end").await.unwrap();
    let mut answer = String::new();
    timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_an_end_is_not_taken_in() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let endless =
        "const part = { '/lines': 'x-y: ' + 'z'.repeat(60000) + '\\r\\n', '/line': 'z'.repeat(60000),
        '/names': 'x: y\\r\\n'.repeat(10000), '/status': '' }[path];
    socket.write(path === '/status' ? 'HTTP/1.1 200 ' + 'O'.repeat(2000000) : 'HTTP/1.1 200 OK\\r\\nx: ');
    const total = 1e9;
    const more = () => { while (socket.bytesWritten < total && socket.write(part || 'O'.repeat(60000))); };
    socket.on('close', () => fs.writeFileSync('sent', String(socket.bytesWritten)));
    socket.on('drain', more); more();";
    serve(&daemon, &sandbox, &bare(endless)).await;
    let url = link(&daemon, &sandbox).await;
    for path in ["lines", "line", "names", "status"] {
        daemon.output(&sandbox, "rm -f sent").await;
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!(seen.status, 502, "{path}: {}", seen.head);
        let sent = async || {
            let sent = daemon.client.read_file(&sandbox, "sent").await.unwrap().unwrap_or_default();
            String::from_utf8(sent).unwrap().parse::<u64>().ok()
        };
        until("the server was hung up on", || async { sent().await.is_some() }).await;
        let sent = sent().await.unwrap();
        // Windows and the kernel's buffers on the way are all that it could fill.
        assert!(sent < 64 * 1024 * 1024, "{path}: of 1 GB {sent} bytes were sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_its_answer_is_not_taken_for_one_that_has_ended_it() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let dying = "const head = 'HTTP/1.1 200 OK\\r\\n';
    const half = { '/length': 'content-length: 100\\r\\n\\r\\nhalf', '/chunks': 'transfer-encoding: chunked\\r\\n\\r\\n4\\r\\nhalf\\r\\n',
        '/chunk': 'transfer-encoding: chunked\\r\\n\\r\\n64\\r\\nhalf', '/reset': '\\r\\nhalf', '/whole': '\\r\\nwhole' }[path.split('?')[0]];
    socket.write(head + half);
    if (path === '/whole') return socket.end();
    setTimeout(() => path === '/reset' ? socket.resetAndDestroy() : path.includes('?stay') || socket.destroy(), 300);";
    serve(&daemon, &sandbox, &bare(dying)).await;
    let url = link(&daemon, &sandbox).await;
    let whole = visit(&format!("{url}whole")).await;
    assert!(whole.body.ends_with("\r\n0\r\n\r\n"), "an end looks like this: {whole:?}");
    for path in ["length", "chunks", "chunk", "reset"] {
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!(seen.status, 200, "{path}: {seen:?}");
        assert!(seen.body.contains("half"), "{path}: what came is passed on: {seen:?}");
        assert!(!seen.body.ends_with("0\r\n\r\n"), "{path}: {seen:?}");
        assert!(seen.header("content-length").is_none_or(|length| length == "100"), "{path}: {seen:?}");
    }
    // And where all of the sandbox ends, also where only the connection's end would be the end of the answer.
    for path in ["chunks?stay", "reset?stay"] {
        let address = format!("{url}{path}");
        let (seen, ()) = tokio::join!(visit(&address), async {
            until("it has begun", || async {
                seen_by_the_server(&daemon, &sandbox).await.contains(&format!("/{path} "))
            })
            .await;
            daemon.client.park(&sandbox, true).await.unwrap();
        });
        assert!(!seen.body.ends_with("0\r\n\r\n"), "{path}: {seen:?}");
        serve(&daemon, &sandbox, "rm -f seen; : >seen; exec node bare.js").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_closed_meanwhile_is_no_fault_of_the_request() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    // As any server that has just run out of patience with an idle connection: the next request finds it closed.
    let once = "socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok');
    socket.on('data', () => socket.destroy());";
    serve(&daemon, &sandbox, &bare(once)).await;
    let url = link(&daemon, &sandbox).await;
    for _ in 0..5 {
        assert_eq!(visit(&url).await.body, "ok");
    }
    // What may change something is asked for once, whatever becomes of it.
    let Place { host, port, .. } = place(&url);
    visit(&url).await;
    let post =
        format!("POST /once HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let seen = raw(port, post.as_bytes()).await;
    assert_eq!(seen.status, 502, "{seen:?}");
    assert_eq!(seen_by_the_server(&daemon, &sandbox).await.matches("POST /once").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_smuggled_past_the_gateway() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let answer = "socket.end('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok');";
    serve(&daemon, &sandbox, &bare(answer)).await;
    let Place { host, port, .. } = place(&link(&daemon, &sandbox).await);
    // Without a host: the gateway refuses it as a request, and a server in a sandbox would not.
    let inner = "GET /smuggled HTTP/1.1\r\nx: y\r\n\r\n";
    let post = |headers: &str, body: &str| format!("POST /a HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n{body}");
    let chunked = "transfer-encoding: chunked\r\n";
    let two_lengths = format!("content-length: 3\r\ncontent-length: {}\r\n", 3 + inner.len());
    let refused = [
        ("two lengths", post(&two_lengths, &format!("abc{inner}"))),
        ("a list of lengths", post("content-length: 3, 4\r\n", "abc")),
        ("a sign", post("content-length: +3\r\n", "abc")),
        ("a negative length", post("content-length: -3\r\n", "abc")),
        ("no number", post("content-length: 0x3\r\n", "abc")),
        ("an unknown encoding", post("transfer-encoding: xchunked\r\n", inner)),
        ("chunks inside of something", post("transfer-encoding: chunked, identity\r\n", inner)),
        ("no encoding", post("transfer-encoding: identity\r\n", inner)),
        ("a name with a blank behind it", post("transfer-encoding : chunked\r\n", inner)),
        ("a folded line", post("x: a\r\n transfer-encoding: chunked\r\n", inner)),
        ("a bare carriage return", post("x: a\rtransfer-encoding: chunked\r\n", inner)),
        ("a NUL", post("x: a\0b\r\n", inner)),
        ("no colon", post("transfer-encoding\r\n", inner)),
        ("chunks of an older version", post(chunked, inner).replace("HTTP/1.1\r\nhost", "HTTP/1.0\r\nhost")),
        ("a line end in the path", format!("GET /a\rb HTTP/1.1\r\nhost: {host}\r\n\r\n")),
        ("two versions", format!("GET /a HTTP/1.1 HTTP/1.1\r\nhost: {host}\r\n\r\n")),
        ("another version", format!("GET /a HTTP/9.9\r\nhost: {host}\r\n\r\n")),
    ];
    for (why, bytes) in &refused {
        let seen = raw(port, bytes.as_bytes()).await;
        assert!(matches!(seen.status, 400 | 505), "{why}: {seen:?}");
        assert_eq!(seen_by_the_server(&daemon, &sandbox).await, "", "{why}: of this nothing is passed on");
    }

    // What has one meaning is passed on with one framing; bad chunks end the request, whatever comes behind them.
    let both = "content-length: 5\r\ntransfer-encoding: chunked\r\n";
    let both_turned = format!("{chunked}content-length: 5\r\n");
    let named = "connection: content-length, host, close\r\ncontent-length: 3\r\n";
    let passed = [
        ("both lengths", post(both, &format!("0\r\n\r\n{inner}"))),
        ("both lengths, turned", post(&both_turned, &format!("0\r\n\r\n{inner}"))),
        ("a length named as the connection's", post(named, "abc")),
        ("a chunk without a number", post(chunked, &format!("zz\r\n\r\n{inner}"))),
        ("a chunk beyond all numbers", post(chunked, &format!("fffffffffffffffff1\r\n\r\n{inner}"))),
        ("a chunk with a sign", post(chunked, &format!("-1\r\n\r\n{inner}"))),
        ("a chunk that is longer than it says", post(chunked, &format!("1\r\nabc\r\n0\r\n\r\n{inner}"))),
        ("a chunk's end without a line", post(chunked, &format!("3\r\nabc0\r\n\r\n{inner}"))),
        ("more than the length", post("content-length: 3\r\n", &format!("abc{inner}"))),
    ];
    for (why, bytes) in &passed {
        raw(port, bytes.as_bytes()).await;
        let seen = seen_by_the_server(&daemon, &sandbox).await;
        assert!(!seen.contains("/smuggled"), "{why}: {seen}");
        for head in seen.split("\r\n\r\n").filter(|part| part.starts_with("POST ")) {
            let framed = ["content-length: ", "transfer-encoding: "].map(|name| head.contains(name));
            assert_ne!(framed, [true, true], "{why}: {head}");
            assert!(head.contains(&format!("host: localhost:{PORT}")), "{why}: {head}");
        }
        daemon.output(&sandbox, ": >seen").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_two_lengths_has_one_for_the_visitor() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let both =
        "const first = path === '/turned' ? 'transfer-encoding: chunked\\r\\ncontent-length: 2\\r\\n' \
        : 'content-length: 2\\r\\ntransfer-encoding: chunked\\r\\n';
    socket.end('HTTP/1.1 200 OK\\r\\n' + first + '\\r\\n5\\r\\nhello\\r\\n0\\r\\n\\r\\n');";
    serve(&daemon, &sandbox, &bare(both)).await;
    let url = link(&daemon, &sandbox).await;
    for path in ["", "turned"] {
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!((seen.status, seen.header("content-length")), (200, None), "{seen:?}");
        assert!(seen.body.contains("hello\r\n0\r\n\r\n"), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_another_preview_opens_neither() {
    let daemon = Daemon::start().await;
    let (mine, other) =
        (sandbox_with_port(&daemon, "chat:1").await, sandbox_with_port(&daemon, "chat:2").await);
    serve(&daemon, &mine, &node("res.end('mine ' + req.headers['x-forwarded-host'])")).await;
    serve(&daemon, &other, &node("res.end('other')")).await;
    let by_port = CreateLink { style: Some(LinkStyle::Port), ttl_ms: None };
    let my_door = daemon.client.create_link(&mine, PORT, &by_port).await.unwrap().url;
    let others_door = daemon.client.create_link(&other, PORT, &by_port).await.unwrap().url;
    let (my_name, others_name) = (place(&link(&daemon, &mine).await), place(&link(&daemon, &other).await));
    let cookie =
        |seen: crate::visitor::Seen| seen.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let (my_cookie, others_cookie) = (cookie(visit(&my_door).await), cookie(visit(&others_door).await));
    let ask = |port: u16, host: &str, headers: &str| {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n");
        async move { raw(port, request.as_bytes()).await }
    };
    let door = place(&my_door);
    // A door is of one preview, whatever name is said there: it wants that preview's cookie.
    let seen = ask(door.port, &others_name.host, &format!("cookie: {my_cookie}\r\n")).await;
    assert!(seen.body.contains("mine"), "{seen:?}");
    for headers in [format!("cookie: {others_cookie}\r\n"), String::new()] {
        let seen = ask(door.port, &others_name.host, &headers).await;
        assert_eq!(seen.status, 404, "{seen:?}");
    }
    // The gateway goes by one name, and what else is said of names is not believed.
    let forged = format!("x-forwarded-host: {0}\r\nx-host: {0}\r\nforwarded: host={0}\r\n", others_name.host);
    let seen = ask(my_name.port, &my_name.host, &forged).await;
    assert!(seen.body.contains(&format!("mine {}", my_name.host)), "{seen:?}");
    let path = format!(
        "GET //{}/ HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        others_name.host, my_name.host
    );
    assert!(raw(my_name.port, path.as_bytes()).await.body.contains("mine"));
    let token = |place: &Place| place.host.split(['-', '.']).nth(1).unwrap().to_owned();
    let both = format!("{PORT}-{}.{PORT}-{}.localhost", token(&my_name), token(&others_name));
    assert_eq!(ask(my_name.port, &both, "").await.status, 404);
}
