//! The gateway, with visitors and servers that violate HTTP.

use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sandboxd::model::limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::support::harness::{Daemon, Home, SOON, until};
use crate::support::visitor::{
    UrlParts, bare, link, raw, sandbox_with_port, seen_by_the_server, serve, url_parts, visit, visit_with,
};
use crate::support::web_socket::{ECHO, web_socket};

/// Pause between two bytes of a slow visitor.
const DRIBBLE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_head_sent_byte_by_byte_is_cut_off() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    let UrlParts { host, port, .. } = url_parts(&link(&daemon, &sandbox).await);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let began = Instant::now();
    let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\nx-long: {}", "a".repeat(1000));
    let dribble = async {
        for byte in head.bytes() {
            // A client notices a closed connection by writing.
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(DRIBBLE).await;
        }
    };
    timeout(limits::REQUEST_HEAD + SOON, dribble).await.expect("the connection stays open");
    assert!(began.elapsed() >= limits::REQUEST_HEAD / 2, "{:?}", began.elapsed());
}

/// Both ends of all connections are in this process.
fn raise_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_slow_visitors_do_not_block_others() {
    raise_open_files();
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, ECHO).await;
    let url = link(&daemon, &sandbox).await;
    let UrlParts { host, port, .. } = url_parts(&url);
    let mut socket = web_socket(&url).await;
    let mut slow = Vec::new();
    for _ in 0..limits::MAX_VISITORS + 16 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET / HT").await.unwrap();
        slow.push(stream);
    }
    // Connections kept alive after a response, which are idle as well.
    let kept = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    for _ in 0..16 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(kept.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let visited =
        timeout(limits::REQUEST_HEAD / 4, visit(&url)).await.expect("the visit waits for slow visitors");
    assert_eq!(visited.body, "a page");
    socket.send(Message::text("still here")).await.unwrap();
    let echoed = timeout(SOON, socket.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(echoed.into_text().unwrap(), "still here", "an active connection is kept");
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_respond_times_out() {
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

    // The server cannot respond before it has the whole body, so the time of the upload does not count.
    let UrlParts { host, port, .. } = url_parts(&url);
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
async fn an_endless_response_head_is_rejected() {
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
        until("the connection to the server is closed", || async { sent().await.is_some() }).await;
        let sent = sent().await.unwrap();
        // Only TCP windows and kernel buffers can take more bytes.
        assert!(sent < 64 * 1024 * 1024, "{path}: of 1 GB {sent} bytes were sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_cut_off_by_the_server_is_not_reported_as_complete() {
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
    assert!(whole.body.ends_with("\r\n0\r\n\r\n"), "a complete response ends like this: {whole:?}");
    for path in ["length", "chunks", "chunk", "reset"] {
        let seen = visit(&format!("{url}{path}")).await;
        assert_eq!(seen.status, 200, "{path}: {seen:?}");
        assert!(seen.body.contains("half"), "{path}: the received part is forwarded: {seen:?}");
        assert!(!seen.body.ends_with("0\r\n\r\n"), "{path}: {seen:?}");
        assert!(seen.header("content-length").is_none_or(|length| length == "100"), "{path}: {seen:?}");
    }
    // The same when the whole sandbox stops, also for a response that ends with its connection.
    for path in ["chunks?stay", "reset?stay"] {
        let address = format!("{url}{path}");
        let (seen, ()) = tokio::join!(visit(&address), async {
            until("the server has the request", || async {
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
async fn a_request_on_a_closed_idle_connection_is_retried() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    // Like a server that has just closed an idle connection: the next request finds it closed.
    let once = "socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok');
    socket.on('data', () => socket.destroy());";
    serve(&daemon, &sandbox, &bare(once)).await;
    let url = link(&daemon, &sandbox).await;
    for _ in 0..5 {
        assert_eq!(visit(&url).await.body, "ok");
    }
    // A request that may change something is sent only once.
    let UrlParts { host, port, .. } = url_parts(&url);
    visit(&url).await;
    let post =
        format!("POST /once HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let seen = raw(port, post.as_bytes()).await;
    assert_eq!(seen.status, 502, "{seen:?}");
    assert_eq!(seen_by_the_server(&daemon, &sandbox).await.matches("POST /once").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_body_is_reported_as_the_visitors_error() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &bare("")).await;
    let url = link(&daemon, &sandbox).await;
    let UrlParts { host, port, .. } = url_parts(&url);
    let broken = format!(
        "POST /broken HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nno length\r\n"
    );
    let seen = raw(port, broken.as_bytes()).await;
    assert_eq!(seen.status, 400, "{seen:?}");
}
