//! The gateway between visitors and servers that do not speak HTTP as they should.

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
    Place, bare, link, place, raw, sandbox_with_port, seen_by_the_server, serve, visit, visit_with,
};
use crate::support::web_socket::{ECHO, web_socket};

/// Pause between two bytes of somebody who takes his time.
const DRIBBLE: Duration = Duration::from_millis(100);

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

/// Both ends of all the connections are in this process.
fn raise_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_take_their_time_keep_nobody_out() {
    raise_open_files();
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
async fn a_visitors_broken_body_is_no_fault_of_the_server() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &bare("")).await;
    let url = link(&daemon, &sandbox).await;
    let Place { host, port, .. } = place(&url);
    let broken = format!(
        "POST /broken HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nno length\r\n"
    );
    let seen = raw(port, broken.as_bytes()).await;
    assert_eq!(seen.status, 400, "{seen:?}");
}
