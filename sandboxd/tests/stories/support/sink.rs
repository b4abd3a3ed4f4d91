//! A network namespace that plays other machines: a host of the LAN, a host that stories allow, and a cloud's metadata
//! service. It records the connections that arrive, so that a story need not trust the client.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::harness::skip;

/// A host that sandboxes must not reach.
pub(crate) const LAN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// A host that stories allow.
pub(crate) const OPENED: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// The metadata address of clouds.
pub(crate) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// This machine's address in that network.
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

const TCP_PORTS: [u16; 7] = [22, 25, 53, 80, 443, 2375, 8080];
const UDP_PORTS: [u16; 3] = [53, 443, 9999];

/// A connection that arrived: its destination and its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// See the module. Dropping it removes the namespace.
pub(crate) struct Sink {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    name: String,
    /// All instances use the same addresses, so only one may exist at a time.
    _turn: File,
}

impl Sink {
    /// Returns `None` and skips the test if this user cannot create network namespaces.
    pub(crate) fn open() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("only root can create network namespaces");
            return None;
        }
        let turn = File::create(std::env::temp_dir().join("sandboxd-test-sink.lock")).unwrap();
        turn.lock().unwrap();
        let name = format!("sbxsink{}", std::process::id());
        let sink = Self { arrivals: Arc::default(), name, _turn: turn };
        sink.make();
        sink.listen();
        Some(sink)
    }

    fn make(&self) {
        let (name, inside) = (&self.name, format!("ip -n {}", self.name));
        ip(&format!("ip netns add {name}"));
        ip(&format!("ip link add sbxsink0 type veth peer name sbxsink1 netns {name}"));
        ip(&format!("ip addr add {HERE}/24 dev sbxsink0"));
        ip("ip link set sbxsink0 up");
        ip(&format!("{inside} link set lo up"));
        for address in [LAN, OPENED] {
            ip(&format!("{inside} addr add {address}/24 dev sbxsink1"));
        }
        ip(&format!("{inside} addr add {METADATA}/32 dev sbxsink1"));
        ip(&format!("{inside} link set sbxsink1 up"));
        ip(&format!("ip route add {METADATA}/32 dev sbxsink0"));
    }

    /// Sockets belong to the namespace of the thread that creates them.
    fn listen(&self) {
        let namespace = File::open(format!("/run/netns/{}", self.name)).unwrap();
        let bind = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let tcp = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            let udp = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            (TCP_PORTS.map(tcp), UDP_PORTS.map(udp))
        };
        let (tcp, udp) = std::thread::spawn(bind).join().unwrap();
        for listener in tcp {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tokio::spawn(accept(listener, Arc::clone(&self.arrivals)));
        }
        for socket in udp {
            socket.set_nonblocking(true).unwrap();
            let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
            tokio::spawn(hear(socket, Arc::clone(&self.arrivals)));
        }
    }

    /// All connections that have arrived so far.
    pub(crate) fn arrivals(&self, at: Ipv4Addr) -> Vec<Arrival> {
        let arrivals = self.arrivals.lock().unwrap();
        arrivals
            .iter()
            .filter(|arrival| arrival.at.ip() == at || arrival.at.ip().is_unspecified())
            .cloned()
            .collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The other end of the link and its routes are removed with it.
        for command in ["ip link del sbxsink0".to_owned(), format!("ip netns del {}", self.name)] {
            let _ = Command::new("sh").args(["-c", &command]).status();
        }
    }
}

fn ip(command: &str) {
    let mut words = command.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(done.status.success(), "{command}: {done:?}");
}

async fn accept(listener: tokio::net::TcpListener, arrivals: Arc<Mutex<Vec<Arrival>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, Arc::clone(&arrivals)));
    }
}

/// Records the connection at once, and its bytes as they arrive. Responds to HTTP; `/lan` redirects to the LAN, and
/// `/metadata` to the metadata service. After `/leave` and `/old` it closes the connection, with and without announcing
/// it. Anything other than HTTP is echoed.
async fn answer(mut stream: tokio::net::TcpStream, arrivals: Arc<Mutex<Vec<Arrival>>>) {
    let at = stream.local_addr().unwrap();
    let index = {
        let mut arrivals = arrivals.lock().unwrap();
        arrivals.push(Arrival { at, bytes: Vec::new() });
        arrivals.len() - 1
    };
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part).await {
        arrivals.lock().unwrap()[index].bytes.extend_from_slice(&part[..length]);
        let answer = match &part[..length] {
            words if words.starts_with(b"GET /lan ") => redirect(&format!("http://{LAN}/")),
            words if words.starts_with(b"GET /metadata ") => redirect(&format!("http://{METADATA}/latest/")),
            words if words.starts_with(b"GET /leave ") => {
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\nthe sink\n".to_vec()
            }
            words if words.starts_with(b"GET /old ") => b"HTTP/1.0 200 OK\r\n\r\nthe sink\n".to_vec(),
            words if words.starts_with(b"GET ") => {
                b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nthe sink\n".to_vec()
            }
            words => words.to_vec(),
        };
        let is_last = [&b"GET /leave "[..], b"GET /old "].iter().any(|ask| part.starts_with(ask));
        if stream.write_all(&answer).await.is_err() || is_last {
            return;
        }
    }
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

async fn hear(socket: tokio::net::UdpSocket, arrivals: Arc<Mutex<Vec<Arrival>>>) {
    let at = socket.local_addr().unwrap();
    let mut part = [0; 4096];
    while let Ok((length, _)) = socket.recv_from(&mut part).await {
        arrivals.lock().unwrap().push(Arrival { at, bytes: part[..length].to_vec() });
    }
}
