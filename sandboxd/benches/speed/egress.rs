//! Connections to the outside: a server of this machine asked directly, and asked from a sandbox by its proxy.
//!
//! The same client asks both times, by `CONNECT` from within the sandbox's network namespace. So what differs is the way:
//! the agent, its connection to the daemon, and the daemon.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandbox_api::sandbox::{CreateSandbox, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::commands::agent_pid;
use crate::home::Home;
use crate::memory::{peak_kib, resident_kib};
use crate::table::{heading, ratio, row};

const CONNECTIONS: usize = 16;
const ANSWER: usize = 1024;
const LARGE: usize = 100 * 1024 * 1024;
const ROUNDS: usize = 5;
const BLOCK: Duration = Duration::from_secs(2);
const PROXY: &str = "127.0.0.1:13128";

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(serve(server));
    let network = Network { mode: None, allow: Some(vec![address.to_string()]) };
    let wish = CreateSandbox {
        session_key: "bench:egress".into(),
        network: Some(network),
        ..CreateSandbox::default()
    };
    let sandbox = home.client().create_or_reconnect(&wish).await.unwrap().sandbox_id;
    let agent = agent_pid(&sandbox).await;
    let direct = Way { address, within: None };
    let proxied = Way { address, within: Some(agent) };
    requests(direct, proxied).await;
    download(direct, proxied).await;
    println!(
        "  resident now and at most: daemon {} and {} KiB, agent {} and {} KiB",
        resident_kib(home.daemon_pid()),
        peak_kib(home.daemon_pid()),
        resident_kib(agent),
        peak_kib(agent)
    );
}

async fn requests(direct: Way, proxied: Way) {
    heading("answers of 1 KiB on 16 connections that are kept");
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fast.extend(direct.run(ask_for_a_while).await);
        slow.extend(proxied.run(ask_for_a_while).await);
    }
    let seconds = BLOCK.as_secs_f64() * ROUNDS as f64;
    let (fast_rate, slow_rate) = (fast.len() as f64 / seconds, slow.len() as f64 / seconds);
    let (fast, slow) = (row("direct", fast), row("by the proxy", slow));
    println!("  requests a second: direct {fast_rate:.0}, by the proxy {slow_rate:.0}");
    ratio("requests: proxy / direct", slow_rate / fast_rate, "at least 0.7");
    println!("  added at the median: {:.2} ms    (goal: at most 0.5)", slow.p50 - fast.p50);
}

async fn download(direct: Way, proxied: Way) {
    heading("100 MiB down");
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fast.extend(direct.run(ask_for_much).await);
        slow.extend(proxied.run(ask_for_much).await);
    }
    let (fast, slow) = (row("direct", fast), row("by the proxy", slow));
    ratio("throughput: proxy / direct", fast.p50 / slow.p50, "at least 0.5");
}

/// How a client gets to the server.
#[derive(Clone, Copy)]
struct Way {
    address: SocketAddr,
    /// The process in whose network the client is, and so by the proxy there.
    within: Option<u32>,
}

impl Way {
    /// Runs a client on a thread of its own; how long each of its requests took.
    async fn run<F: Future<Output = Vec<Duration>> + 'static>(self, client: fn(Self) -> F) -> Vec<Duration> {
        let run = move || {
            if let Some(pid) = self.within {
                let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(client(self))
        };
        let (done, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(run()));
        ended.await.unwrap()
    }

    async fn connect(self) -> TcpStream {
        if self.within.is_none() {
            let stream = TcpStream::connect(self.address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            return stream;
        }
        let mut stream = TcpStream::connect(PROXY).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let connect = format!("CONNECT {} HTTP/1.1\r\nhost: x\r\n\r\n", self.address);
        stream.write_all(connect.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        stream
    }
}

async fn ask_for_a_while(way: Way) -> Vec<Duration> {
    let mut clients = JoinSet::new();
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(way.connect().await);
    }
    let until = Instant::now() + BLOCK;
    for mut stream in streams {
        clients.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                times.push(ask(&mut stream, "/small", ANSWER).await);
            }
            times
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

async fn ask_for_much(way: Way) -> Vec<Duration> {
    let mut stream = way.connect().await;
    vec![ask(&mut stream, "/large", LARGE).await]
}

/// How long a request took to the last byte of its answer.
async fn ask(stream: &mut TcpStream, path: &str, length: usize) -> Duration {
    let began = Instant::now();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut left = head_of(length).len() + length;
    let mut part = vec![0; left.min(128 * 1024)];
    while left > 0 {
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the answer broke off");
        left -= read;
    }
    began.elapsed()
}

fn head_of(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n")
}

async fn serve(listener: TcpListener) {
    let answer = |length: usize| [head_of(length).as_bytes(), &vec![b'x'; length]].concat();
    let (small, large): (&[u8], &[u8]) = (answer(ANSWER).leak(), answer(LARGE).leak());
    while let Ok((mut stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let mut request = [0; 1024];
            // A request is small enough to come at once.
            while let Ok(length @ 1..) = stream.read(&mut request).await {
                let answer = if request[..length].starts_with(b"GET /large") { large } else { small };
                if stream.write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}
