//! Tunnels between real sockets and calls made of channels.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_protocol::MAX_PART_BYTES;
use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::{AcceptConnection, End, Opened, OutgoingConnection, Reset, TunnelPart};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::relay::relay;
use super::*;

/// Limit of every wait for a condition.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// How long nothing must happen before a direction counts as stalled.
const STILL: Duration = Duration::from_millis(300);

/// A tunnel's call, from sandboxd's side.
pub(super) struct Call {
    parts: mpsc::Sender<Result<TunnelPart, Status>>,
    answers: Pin<Box<dyn Stream<Item = Result<TunnelPart, Status>> + Send>>,
}

impl Call {
    /// Connects to a port.
    async fn to(tunnels: &Tunnels, port: u16) -> Self {
        let (socket, permit) = tunnels.connect(port.into()).await.unwrap();
        Self::with(|parts| relay(socket, Bytes::new(), parts, Some(permit)).boxed()).await
    }

    /// Opens the connection of a pending request.
    pub(super) async fn accepting(tunnels: &Tunnels, request: &OutgoingConnection) -> Self {
        let accept = AcceptConnection { id: request.id, refused: None };
        let end = tunnels.accept(&accept).await.unwrap().unwrap();
        Self::with(|parts| match end {
            NearEnd::Client(client, early) => relay(client, early, parts, None).boxed(),
            NearEnd::Http(socket) => relay(socket, Bytes::new(), parts, None).boxed(),
        })
        .await
    }

    async fn with(
        relay: impl FnOnce(
            ReceiverStream<Result<TunnelPart, Status>>,
        ) -> Pin<Box<dyn Stream<Item = Result<TunnelPart, Status>> + Send>>,
    ) -> Self {
        let (parts, sent) = mpsc::channel(1);
        let mut call = Self { parts, answers: relay(ReceiverStream::new(sent)) };
        assert_eq!(call.next().await, Some(Part::Opened(Opened {})));
        call
    }

    async fn part(&self, part: Part) {
        self.parts.send(Ok(TunnelPart { part: Some(part) })).await.unwrap();
    }

    pub(super) async fn send(&self, data: &[u8]) {
        self.part(Part::Data(Bytes::copy_from_slice(data))).await;
    }

    pub(super) async fn end(&self) {
        self.part(Part::End(End {})).await;
    }

    pub(super) async fn reset(&self) {
        self.part(Part::Reset(Reset {})).await;
    }

    pub(super) async fn next(&mut self) -> Option<Part> {
        let next = timeout(SOON, self.answers.next()).await.expect("an answer");
        next.map(|part| part.unwrap().part.unwrap())
    }

    /// Reads all data up to and including `last`.
    pub(super) async fn read_until(&mut self, last: &str) -> String {
        let mut all = Vec::new();
        while !all.ends_with(last.as_bytes()) {
            let Some(Part::Data(data)) = self.next().await else { panic!("no data behind {all:?}") };
            all.extend(data);
        }
        String::from_utf8(all).unwrap()
    }

    /// Reads all data up to the end.
    pub(super) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Some(Part::Data(data)) => all.extend(data),
                Some(Part::End(_)) => return all,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Opens a tunnel, and returns it with the server's socket.
async fn open() -> (Call, TcpStream) {
    open_in(&Tunnels::new()).await
}

async fn open_in(tunnels: &Tunnels) -> (Call, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = Call::to(tunnels, listener.local_addr().unwrap().port()).await;
    (call, listener.accept().await.unwrap().0)
}

async fn read_all(server: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    timeout(SOON, server.read_to_end(&mut all)).await.expect("an end")?;
    Ok(all)
}

#[track_caller]
fn assert_reset<T: std::fmt::Debug>(read: io::Result<T>) {
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn each_direction_ends_independently() {
    let (mut call, mut server) = open().await;
    call.send(b"question").await;
    call.end().await;
    assert_eq!(read_all(&mut server).await.unwrap(), b"question");
    server.write_all(b"answer").await.unwrap();
    drop(server);
    assert_eq!(call.read_to_end().await, b"answer");
    assert_eq!(call.next().await, None);

    let (mut call, mut server) = open().await;
    server.write_all(b"greeting").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(call.read_to_end().await, b"greeting");
    call.send(b"thanks").await;
    call.end().await;
    assert_eq!(read_all(&mut server).await.unwrap(), b"thanks");
    assert_eq!(call.next().await, None, "the call ends when both directions have ended");
}

#[tokio::test]
async fn a_reset_by_the_server_is_reported_as_a_reset() {
    let (mut call, mut server) = open().await;
    server.write_all(b"half of").await.unwrap();
    assert_eq!(call.read_until("half of").await, "half of");
    server.set_zero_linger().unwrap();
    drop(server);
    assert_eq!(call.next().await, Some(Part::Reset(Reset {})));
    assert_eq!(call.next().await, None);
    timeout(SOON, call.parts.closed()).await.unwrap();
}

#[tokio::test]
async fn data_sent_before_a_server_closed_is_delivered() {
    let (mut call, mut server) = open().await;
    call.send(b"the beginning of something long").await;
    server.readable().await.unwrap();
    server.write_all(b"too long").await.unwrap();
    // The kernel sends a reset, because some data is unread.
    drop(server);
    let writer = async {
        while call.parts.send(Ok(data(b"more"))).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, writer).await.expect("the call still accepts data");
    assert_eq!(call.read_until("too long").await, "too long");
    assert_eq!(call.next().await, Some(Part::Reset(Reset {})));
    assert_eq!(call.next().await, None);
}

#[tokio::test]
async fn a_reset_after_the_end_of_the_servers_data_is_reported() {
    let (mut call, mut server) = open().await;
    server.shutdown().await.unwrap();
    assert_eq!(call.read_to_end().await, b"");
    server.set_zero_linger().unwrap();
    drop(server);
    // The kernel reports the reset only to a writer.
    let reset = async {
        loop {
            tokio::select! {
                part = call.answers.next() => return part.unwrap().unwrap().part,
                () = async { call.parts.send(Ok(data(b"x"))).await.unwrap_or_default(); tokio::time::sleep(STILL / 10).await } => {}
            }
        }
    };
    assert_eq!(timeout(SOON, reset).await.unwrap(), Some(Part::Reset(Reset {})));
}

fn data(bytes: &'static [u8]) -> TunnelPart {
    TunnelPart { part: Some(Part::Data(Bytes::from_static(bytes))) }
}

#[tokio::test]
async fn an_aborted_call_resets_the_server() {
    let (call, mut server) = open().await;
    call.reset().await;
    assert_reset(read_all(&mut server).await);

    let (call, mut server) = open().await;
    drop(call);
    assert_reset(read_all(&mut server).await);

    let (mut call, mut server) = open().await;
    drop(call.parts);
    assert_reset(read_all(&mut server).await);
    assert_eq!(call.answers.next().await.unwrap().unwrap().part, Some(Part::Reset(Reset {})));

    let (call, mut server) = open().await;
    call.parts.send(Err(Status::unavailable("gone"))).await.unwrap();
    assert_reset(read_all(&mut server).await);

    // The same if all data was sent to the server, but not all of its data was read.
    let (call, mut server) = open().await;
    call.end().await;
    assert_eq!(read_all(&mut server).await.unwrap(), b"");
    drop(call);
    timeout(SOON, server.ready(tokio::io::Interest::ERROR)).await.expect("a reset").unwrap();

    // The same while the server reads nothing and the tunnel is full.
    let (call, mut server) = open().await;
    while timeout(STILL, call.send(&[0; MAX_PART_BYTES])).await.is_ok() {}
    drop(call);
    assert_reset(read_all(&mut server).await);
}

#[tokio::test]
async fn a_client_may_disconnect_before_its_last_bytes_are_written() {
    let (mut call, mut server) = open().await;
    server.shutdown().await.unwrap();
    assert_eq!(call.read_to_end().await, b"");
    let mut sent = 0;
    while timeout(STILL, call.send(&[0; MAX_PART_BYTES])).await.is_ok() {
        sent += MAX_PART_BYTES;
    }
    let parts = call.parts.clone();
    drop(call);
    let read = tokio::spawn(async move { read_all(&mut server).await });
    parts.send(Ok(TunnelPart { part: Some(Part::End(End {})) })).await.unwrap();
    assert_eq!(read.await.unwrap().unwrap().len(), sent);
}

#[tokio::test]
async fn a_server_that_does_not_read_stalls_only_its_own_tunnel() {
    let tunnels = Tunnels::new();
    let (stalled, mut server) = open_in(&tunnels).await;
    let mut sent = 0;
    while timeout(STILL, stalled.send(&[1; MAX_PART_BYTES])).await.is_ok() {
        sent += MAX_PART_BYTES;
        assert!(sent < 64 << 20, "it is not held up");
    }
    check_other_tunnel(&tunnels).await;
    let say_the_rest = async {
        stalled.send(b"last").await;
        stalled.end().await;
    };
    let ((), all) = futures::join!(say_the_rest, read_all(&mut server));
    let all = all.unwrap();
    assert_eq!(all.len(), sent + 4);
    assert!(all.ends_with(b"last"));
}

#[tokio::test]
async fn a_client_that_does_not_read_stalls_only_its_own_direction() {
    let tunnels = Tunnels::new();
    let (mut stalled, mut server) = open_in(&tunnels).await;
    let mut sent = 0;
    while timeout(STILL, server.write_all(&[2; MAX_PART_BYTES])).await.is_ok() {
        sent += MAX_PART_BYTES;
        assert!(sent < 64 << 20, "it is not held up");
    }
    // The other direction of the same tunnel is not stalled either.
    stalled.send(b"to the server").await;
    let mut heard = [0; 13];
    timeout(SOON, server.read_exact(&mut heard)).await.unwrap().unwrap();
    check_other_tunnel(&tunnels).await;
    let reader = tokio::spawn(async move { stalled.read_to_end().await.len() });
    drop(server);
    assert!(timeout(SOON, reader).await.unwrap().unwrap() >= sent);
}

/// Checks that another tunnel works.
async fn check_other_tunnel(tunnels: &Tunnels) {
    let (mut call, mut server) = open_in(tunnels).await;
    call.send(b"ping").await;
    let mut ping = [0; 4];
    timeout(SOON, server.read_exact(&mut ping)).await.unwrap().unwrap();
    server.write_all(b"pong").await.unwrap();
    assert_eq!(call.read_until("pong").await, "pong");
}

#[tokio::test]
async fn three_hundred_tunnels_work_concurrently() {
    let tunnels = Tunnels::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = socket.split();
                tokio::io::copy(&mut from, &mut to).await.unwrap();
                to.shutdown().await.unwrap();
            });
        }
    });
    let mut calls = Vec::new();
    for _ in 0..300 {
        calls.push(Call::to(&tunnels, port).await);
    }
    let echoes = calls.into_iter().enumerate().map(|(number, mut call)| async move {
        let sent = vec![number as u8; 3 * MAX_PART_BYTES / 2];
        let (parts, whole) = (call.parts.clone(), sent.clone());
        let writer = tokio::spawn(async move {
            for part in whole.chunks(MAX_PART_BYTES) {
                let data = Part::Data(Bytes::copy_from_slice(part));
                parts.send(Ok(TunnelPart { part: Some(data) })).await.unwrap();
            }
            parts.send(Ok(TunnelPart { part: Some(Part::End(End {})) })).await.unwrap();
        });
        assert!(call.read_to_end().await == sent, "what came back is not what was sent");
        writer.await.unwrap();
        assert_eq!(call.next().await, None);
    });
    futures::future::join_all(echoes).await;
    assert_eq!(tunnels.permits.available_permits(), MAX_INBOUND_TUNNELS, "every permit is free again");
}

#[tokio::test]
async fn the_number_of_tunnels_is_limited_and_a_permit_is_released() {
    let tunnels = Tunnels::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let all: Vec<_> =
        (1..MAX_INBOUND_TUNNELS).map(|_| Arc::clone(&tunnels.permits).try_acquire_owned()).collect();
    let last = Call::to(&tunnels, port).await;
    let refused = tunnels.connect(port.into()).await.unwrap_err();
    assert!(matches!(refused, Kind::LimitReached(_)), "{refused:?}");
    drop(last);
    let free = async {
        while tunnels.permits.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, free).await.unwrap();
    Call::to(&tunnels, port).await;
    drop(all);
}

#[tokio::test]
async fn a_port_is_found_on_either_loopback_or_reported_as_closed() {
    let tunnels = Tunnels::new();
    let six = TcpListener::bind("[::1]:0").await.unwrap();
    Call::to(&tunnels, six.local_addr().unwrap().port()).await;

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let refused = tunnels.connect(closed.into()).await.unwrap_err();
    assert_eq!(refused, Kind::PortClosed(PortClosed { port: closed.into(), errno: libc::ECONNREFUSED }));
    for bad in [0, 65_536, u32::MAX] {
        let refused = tunnels.connect(bad).await.unwrap_err();
        assert!(matches!(refused, Kind::FieldInvalid(_)), "{refused:?}");
    }
    tunnels.start_proxy(0).await.unwrap();
    let own = tunnels.proxy_addresses()[0].port();
    let refused = tunnels.connect(own.into()).await.unwrap_err();
    assert!(matches!(refused, Kind::PortClosed(_)), "{refused:?}");
    assert!(tunnels.listening().await.sockets.iter().all(|socket| socket.port != u32::from(own)));
}

#[tokio::test]
async fn a_socket_connected_to_itself_counts_as_a_closed_port() {
    // The kernel gives even ports to connecting sockets first, so the chance is one in a few thousand.
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let mut range = range.split_whitespace().map(|port| port.parse::<u16>().unwrap());
    let (first, last) = (range.next().unwrap(), range.next().unwrap());
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    assert!((first..=last).contains(&free));
    for _ in 0..1000 {
        let met = connect_to(Ipv4Addr::LOCALHOST.into(), free).await;
        assert!(met.is_err(), "{met:?}");
    }
}
