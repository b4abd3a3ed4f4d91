//! A minimal web server and minimal clients, so that only the path between them is measured.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::table::{heading, ratio, row};

const CONNECTIONS: usize = 16;
const ANSWER: usize = 1024;
const LARGE: usize = 100 * 1024 * 1024;
const ROUNDS: usize = 5;
const BLOCK: Duration = Duration::from_secs(2);

/// The path from a client to the server.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The address that it connects to.
    pub(crate) address: SocketAddr,
    /// The process whose network it uses, if not this one's.
    pub(crate) within: Option<u32>,
    /// The target that it requests from a proxy.
    pub(crate) connect: Option<String>,
    /// The host name that it sends.
    pub(crate) host: String,
}

/// Compares three paths in turn and prints the result: directly to the server, by `way`, and through two plain relays,
/// which is the minimum for a sandbox without a network.
pub(crate) async fn compare(direct: &Way, name: &str, way: &Way, relayed: &Way) {
    heading(&format!("answers of 1 KiB on 16 connections that are kept, {name}"));
    let [fast, slow, bare] = in_turn([direct, way, relayed], ask_for_a_while).await;
    let rate = |times: &Vec<Duration>| times.len() as f64 / (BLOCK.as_secs_f64() * ROUNDS as f64);
    let (fast_rate, slow_rate, bare_rate) = (rate(&fast), rate(&slow), rate(&bare));
    let (fast, slow) = (row("direct", fast), row(name, slow));
    row("by two bare relays", bare);
    println!(
        "  requests a second: direct {fast_rate:.0}, {name} {slow_rate:.0}, by two bare relays {bare_rate:.0}"
    );
    ratio("requests", slow_rate / fast_rate, "at least 0.7 of direct");
    println!("  added at the median: {:.2} ms    (goal: at most 0.5)", slow.p50 - fast.p50);

    heading(&format!("one answer of 1 KiB after the other, {name}"));
    let [fast, slow, bare] = in_turn([direct, way, relayed], ask_one_by_one).await;
    let (fast, slow) = (row("direct", fast), row(name, slow));
    row("by two bare relays", bare);
    println!("  added at the median: {:.2} ms    (goal: at most 0.5)", slow.p50 - fast.p50);

    heading(&format!("100 MiB down, {name}"));
    let [fast, slow, bare] = in_turn([direct, way, relayed], ask_for_much).await;
    let (fast, slow) = (row("direct", fast), row(name, slow));
    let bare = row("by two bare relays", bare);
    ratio("throughput", fast.p50 / slow.p50, "at least 0.5 of direct");
    ratio("throughput of two bare relays", fast.p50 / bare.p50, "none; for comparison");
}

async fn in_turn<F>(ways: [&Way; 3], client: fn(Way) -> F) -> [Vec<Duration>; 3]
where
    F: Future<Output = Vec<Duration>> + 'static,
{
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut times) {
            times.extend(way.run(client).await);
        }
    }
    times
}

impl Way {
    /// Runs a client on its own thread. Returns the times of its requests.
    async fn run<F: Future<Output = Vec<Duration>> + 'static>(&self, client: fn(Self) -> F) -> Vec<Duration> {
        let way = self.clone();
        let (done, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let within = way.within;
            done.send(on_this_thread(within, client(way)))
        });
        ended.await.unwrap()
    }

    async fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let Some(connect) = &self.connect else { return stream };
        stream.write_all(format!("CONNECT {connect} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let head = read_head(&mut stream, &mut Vec::new()).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        stream
    }
}

/// Starts a server on a free port of this machine, or on a loopback port in a process's network.
pub(crate) async fn start_server(address: SocketAddr, within: Option<u32>) -> SocketAddr {
    let (ready, listens) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        on_this_thread(within, async move {
            let listener = TcpListener::bind(address).await.unwrap();
            ready.send(listener.local_addr().unwrap()).unwrap();
            serve(listener).await;
        });
    });
    listens.await.unwrap()
}

/// Starts two relays with a unix socket at `path` between them, from a free port of this machine or of a process's
/// network, to `server` in the other. Each only copies bytes.
pub(crate) async fn start_relays(
    path: PathBuf,
    from: Option<u32>,
    server: SocketAddr,
    within: Option<u32>,
) -> SocketAddr {
    let (ready, listens) = tokio::sync::oneshot::channel();
    let inner = UnixListener::bind(&path).unwrap();
    let inner = inner.into_std().unwrap();
    std::thread::spawn(move || {
        on_this_thread(within, async move {
            let inner = UnixListener::from_std(inner).unwrap();
            while let Ok((from, _)) = inner.accept().await {
                let to = TcpStream::connect(server).await.unwrap();
                to.set_nodelay(true).unwrap();
                tokio::spawn(relay(from, to));
            }
        });
    });
    std::thread::spawn(move || {
        on_this_thread(from, async move {
            let outer = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ready.send(outer.local_addr().unwrap()).unwrap();
            while let Ok((from, _)) = outer.accept().await {
                from.set_nodelay(true).unwrap();
                tokio::spawn(relay(from, UnixStream::connect(&path).await.unwrap()));
            }
        });
    });
    listens.await.unwrap()
}

/// With buffers as large as those of a tunnel.
async fn relay(mut one: impl AsyncRead + AsyncWrite + Unpin, mut other: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut one, &mut other, PART, PART).await;
}

const PART: usize = 256 * 1024;

fn on_this_thread<T>(within: Option<u32>, work: impl Future<Output = T>) -> T {
    if let Some(pid) = within {
        let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn ask_for_a_while(way: Way) -> Vec<Duration> {
    let mut clients = JoinSet::new();
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(way.open().await);
    }
    let until = Instant::now() + BLOCK;
    for mut stream in streams {
        let host = way.host.clone();
        clients.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                times.push(ask(&mut stream, &host, "/small", ANSWER).await);
            }
            times
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

async fn ask_one_by_one(way: Way) -> Vec<Duration> {
    let mut stream = way.open().await;
    let until = Instant::now() + BLOCK;
    let mut times = Vec::new();
    while Instant::now() < until {
        times.push(ask(&mut stream, &way.host, "/small", ANSWER).await);
    }
    times
}

async fn ask_for_much(way: Way) -> Vec<Duration> {
    let mut stream = way.open().await;
    vec![ask(&mut stream, &way.host, "/large", LARGE).await]
}

/// Time of a request up to the last byte of its response.
async fn ask(stream: &mut TcpStream, host: &str, path: &str, length: usize) -> Duration {
    let began = Instant::now();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut part = Vec::with_capacity(128 * 1024);
    let head = read_head(stream, &mut part).await;
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains(&format!("content-length: {length}")),
        "{head}"
    );
    let mut left = length - part.len();
    while left > 0 {
        part.clear();
        let read = stream.read_buf(&mut part).await.unwrap();
        assert!(read > 0, "the response ended early");
        left -= read;
    }
    began.elapsed()
}

/// Reads a response's head. Bytes after it stay in `part`.
async fn read_head(stream: &mut TcpStream, part: &mut Vec<u8>) -> String {
    loop {
        if let Some(end) = part.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            return String::from_utf8(part.drain(..end + 4).collect()).unwrap();
        }
        assert!(stream.read_buf(part).await.unwrap() > 0, "no response");
    }
}

async fn serve(listener: TcpListener) {
    let (small, large): (&[u8], &[u8]) = (answer(ANSWER).leak(), answer(LARGE).leak());
    while let Ok((mut stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            // A request is small enough to arrive in one piece.
            while let Ok(length @ 1..) = stream.read(&mut request).await {
                let answer = if request[..length].starts_with(b"GET /large") { large } else { small };
                if stream.write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn answer(length: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n");
    [head.as_bytes(), &vec![b'x'; length]].concat()
}
