//! Tunnels to an agent that the test plays, over a real connection.
//!
//! The requested port selects the agent's behavior. The real agent has its own tests, with real sockets.

use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use agent_protocol::fault::{Kind, to_status};
use agent_protocol::greeting::Greeting;
use agent_protocol::v1::tunnels_server::{Tunnels, TunnelsServer};
use agent_protocol::v1::{
    End, ListeningProcess, ListeningReply, ListeningRequest, ListeningSocket, Opened, OutgoingConnection,
    OutgoingRequest, PortClosed, Reset, TunnelPart,
};
use agent_protocol::{GENERATION, MAX_CALLS, STREAM_WINDOW_BYTES};
use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ErrorKind};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::*;
use sandboxd_model::Refusal;
use sandboxd_model::port::{RefusedReason, Via};

/// Bound of every wait for a condition.
const SOON: Duration = Duration::from_secs(20);

/// Time without progress that counts as a stall.
const STILL: Duration = Duration::from_millis(300);

const ECHO: u16 = 1;
const HALF_THEN_RESET: u16 = 2;
const CLOSED: u16 = 3;
const HALF_THEN_SILENCE: u16 = 4;
const FLOOD: u16 = 5;
const NONSENSE: u16 = 6;
const UNRESPONSIVE: u16 = 7;
const FAREWELL_FIRST: u16 = 8;

type Parts = Pin<Box<dyn Stream<Item = Result<TunnelPart, Status>> + Send>>;

/// How a call ended for the played agent.
#[derive(Debug, PartialEq, Eq)]
enum Received {
    End(Vec<u8>),
    /// It ended without a last message.
    Cut,
    Refused(i32, String),
}

struct ScriptedAgent {
    received: UnboundedSender<Received>,
    /// Waiting outbound connections, by port.
    waiting: Mutex<Vec<OutgoingConnection>>,
}

fn part(part: Part) -> Result<TunnelPart, Status> {
    Ok(TunnelPart { part: Some(part) })
}

fn data(bytes: &'static [u8]) -> Result<TunnelPart, Status> {
    part(Part::Data(Bytes::from_static(bytes)))
}

fn end() -> Result<TunnelPart, Status> {
    part(Part::End(End {}))
}

fn opened() -> Result<TunnelPart, Status> {
    part(Part::Opened(Opened {}))
}

/// Sends everything back, including the end, and reports what arrived.
fn echo(mut parts: Streaming<TunnelPart>, received: UnboundedSender<Received>) -> Parts {
    let (answers, sent) = mpsc::channel(1);
    tokio::spawn(async move {
        answers.send(opened()).await.unwrap();
        let mut all = Vec::new();
        while let Ok(Some(TunnelPart { part: Some(next) })) = parts.message().await {
            match &next {
                Part::Data(data) => all.extend_from_slice(data),
                Part::End(_) => {
                    let _ = answers.send(part(next)).await;
                    return received.send(Received::End(all)).unwrap_or_default();
                }
                _ => break,
            }
            let _ = answers.send(part(next)).await;
        }
        let _ = received.send(Received::Cut);
    });
    ReceiverStream::new(sent).boxed()
}

#[tonic::async_trait]
impl Tunnels for ScriptedAgent {
    type ConnectStream = Parts;
    type OutgoingStream = Pin<Box<dyn Stream<Item = Result<OutgoingConnection, Status>> + Send>>;
    type AcceptStream = Parts;

    async fn listening(&self, _: Request<ListeningRequest>) -> Result<Response<ListeningReply>, Status> {
        let process = ListeningProcess { pid: 7, name: format!("no\x1bde{}", "x".repeat(100)) };
        let socket = |port: u32, process| ListeningSocket { port, address: "::1".into(), process };
        let mut sockets = vec![socket(3000, Some(process))];
        sockets.extend((1..=1000).map(|port| socket(port, None)));
        Ok(Response::new(ListeningReply { sockets, truncated: false }))
    }

    async fn connect(&self, request: Request<Streaming<TunnelPart>>) -> Result<Response<Parts>, Status> {
        let mut parts = request.into_inner();
        let Some(Part::Connect(ConnectTo { port })) = parts.message().await?.and_then(|first| first.part)
        else {
            return Err(Status::invalid_argument("not connect"));
        };
        let before_silence = |parts: Vec<_>| futures::stream::iter(parts);
        Ok(Response::new(match u16::try_from(port).unwrap() {
            ECHO => echo(parts, self.received.clone()),
            HALF_THEN_RESET => {
                before_silence(vec![opened(), data(b"half"), part(Part::Reset(Reset {}))]).boxed()
            }
            HALF_THEN_SILENCE => before_silence(vec![opened(), data(b"half")]).boxed(),
            FAREWELL_FIRST => {
                let rest = echo(parts, self.received.clone()).filter(|_| async { false });
                before_silence(vec![opened(), data(b"bye"), end()]).chain(rest).boxed()
            }
            FLOOD => {
                let flood = futures::stream::repeat_with(|| data(&[7; 64 * 1024]));
                futures::stream::iter([opened()]).chain(flood).boxed()
            }
            NONSENSE => before_silence(vec![data(b"no word of open")]).boxed(),
            // The parts are kept and not read.
            UNRESPONSIVE => futures::stream::unfold((true, parts), |(first, parts)| async move {
                if !first {
                    std::future::pending::<()>().await;
                }
                Some((opened(), (false, parts)))
            })
            .boxed(),
            _ => return Err(to_status(Kind::PortClosed(PortClosed { port, errno: 111 }))),
        }))
    }

    async fn outgoing(&self, _: Request<OutgoingRequest>) -> Result<Response<Self::OutgoingStream>, Status> {
        let waiting = self.waiting.lock().unwrap().clone();
        let waiting = futures::stream::iter(waiting.into_iter().map(Ok));
        Ok(Response::new(waiting.chain(futures::stream::pending()).boxed()))
    }

    async fn accept(&self, request: Request<Streaming<TunnelPart>>) -> Result<Response<Parts>, Status> {
        let mut parts = request.into_inner();
        let Some(Part::Accept(accept)) = parts.message().await?.and_then(|first| first.part) else {
            return Err(Status::invalid_argument("not accept"));
        };
        Ok(Response::new(match accept.refused {
            Some(refused) => {
                self.received.send(Received::Refused(refused.reason, refused.text)).unwrap();
                futures::stream::empty().boxed()
            }
            None => echo(parts, self.received.clone()),
        }))
    }
}

/// A handle on the played agent, and what the agent received.
fn agent_with(waiting: Vec<OutgoingConnection>) -> (AgentHandle, UnboundedReceiver<Received>) {
    let (received, received_by_agent) = mpsc::unbounded_channel();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let ours = Mutex::new(Some(ours));
    tokio::spawn(async move {
        let greeting = Greeting { generation: GENERATION, secret: "right".into() };
        theirs.write_all(greeting.to_line().as_bytes()).await.unwrap();
        let service = TunnelsServer::new(ScriptedAgent { received, waiting: Mutex::new(waiting) });
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .max_concurrent_streams(MAX_CALLS)
            .max_pending_accept_reset_streams(MAX_CALLS as usize)
            .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service))
            .await;
    });
    let dial = move || {
        let ours = ours.lock().unwrap().take();
        async move {
            let ours = ours.ok_or(ErrorKind::ConnectionRefused)?;
            Ok(Box::pin(ours) as Pin<Box<dyn crate::Duplex>>)
        }
        .boxed()
    };
    (AgentHandle::dial("right".into(), Box::new(dial)), received_by_agent)
}

fn agent() -> (AgentHandle, UnboundedReceiver<Received>) {
    agent_with(Vec::new())
}

async fn received(received_by_agent: &mut UnboundedReceiver<Received>) -> Received {
    timeout(SOON, received_by_agent.recv()).await.unwrap().unwrap()
}

async fn read_to_end(tunnel: &mut Tunnel) -> (Vec<u8>, std::io::Result<usize>) {
    let mut all = Vec::new();
    let read = timeout(SOON, tunnel.read_to_end(&mut all)).await.expect("an end");
    (all, read)
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_each_ends_independently() {
    let (agent, mut received_by_agent) = agent();
    let mut tunnel = agent.connect_port(ECHO).await.unwrap();
    tunnel.write_all(b"question").await.unwrap();
    let mut answer = [0; 8];
    tunnel.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"question");
    tunnel.shutdown().await.unwrap();
    assert_eq!(tunnel.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    let (rest, read) = read_to_end(&mut tunnel).await;
    assert_eq!((rest.len(), read.unwrap()), (0, 0));
    assert_eq!(received(&mut received_by_agent).await, Received::End(b"question".into()));

    let mut tunnel = agent.connect_port(FAREWELL_FIRST).await.unwrap();
    assert_eq!(read_to_end(&mut tunnel).await.0, b"bye");
    tunnel.write_all(b"thanks").await.unwrap();
    tunnel.shutdown().await.unwrap();
    drop(tunnel);
    assert_eq!(
        received(&mut received_by_agent).await,
        Received::End(b"thanks".into()),
        "the last bytes arrive"
    );
}

#[tokio::test]
async fn long_and_scattered_writes_arrive_whole() {
    let (agent, mut received_by_agent) = agent();
    let tunnel = agent.connect_port(ECHO).await.unwrap();
    let (mut reading, mut writing) = tokio::io::split(tunnel);
    let long: Vec<u8> = (0..=255).cycle().take(3 * MAX_PART_BYTES + 5).collect();
    let scattered = long.clone();
    let writer = tokio::spawn(async move {
        let (one, other) = scattered.split_at(scattered.len() / 3);
        let mut slices =
            [std::io::IoSlice::new(one), std::io::IoSlice::new(&[]), std::io::IoSlice::new(other)];
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let written = writing.write_vectored(left).await.unwrap();
            std::io::IoSlice::advance_slices(&mut left, written);
        }
        writing.shutdown().await.unwrap();
        writing
    });
    let mut all = Vec::new();
    timeout(SOON, reading.read_to_end(&mut all)).await.unwrap().unwrap();
    assert!(all == long, "{} bytes of {} came back", all.len(), long.len());
    writer.await.unwrap();
    assert_eq!(received(&mut received_by_agent).await, Received::End(long));
}

#[tokio::test]
async fn a_reset_or_a_truncated_stream_is_not_an_end_of_file() {
    let (agent, _received) = agent();
    for port in [HALF_THEN_RESET, HALF_THEN_SILENCE] {
        let mut tunnel = agent.connect_port(port).await.unwrap();
        let (half, read) = read_to_end(&mut tunnel).await;
        assert_eq!(
            (half.as_slice(), read.unwrap_err().kind()),
            (b"half".as_slice(), ErrorKind::ConnectionReset)
        );
        let written = async { while tunnel.write_all(&[0; 1024]).await.is_ok() {} };
        timeout(SOON, written).await.expect("writes fail after the reset");
    }
}

#[tokio::test]
async fn a_tunnel_dropped_before_both_directions_end_is_reset() {
    let (agent, mut received_by_agent) = agent();
    let mut tunnel = agent.connect_port(ECHO).await.unwrap();
    tunnel.write_all(b"half of").await.unwrap();
    drop(tunnel);
    assert_eq!(received(&mut received_by_agent).await, Received::Cut);
}

#[tokio::test]
async fn a_lost_agent_resets_its_tunnels() {
    let (agent, _received) = agent();
    let mut tunnel = agent.connect_port(ECHO).await.unwrap();
    agent.close();
    assert_eq!(read_to_end(&mut tunnel).await.1.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_opened_reports_the_reason() {
    let (agent, _received) = agent();
    let refused = agent.connect_port(CLOSED).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::PortClosed { port: 3 })), "{refused:?}");
    let nonsense = agent.connect_port(NONSENSE).await.unwrap_err();
    assert!(matches!(nonsense, Error::Malformed { missing: "opened" }), "{nonsense:?}");
}

#[tokio::test]
async fn a_stalled_tunnel_blocks_no_other() {
    let (agent, _received) = agent();
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(agent.connect_port(FLOOD).await.unwrap());
    }
    let mut unresponsive = agent.connect_port(UNRESPONSIVE).await.unwrap();
    let mut written = 0;
    while let Ok(done) = timeout(STILL, unresponsive.write(&[0; MAX_PART_BYTES])).await {
        written += done.unwrap();
        assert!(written < 16 << 20, "the write never blocks");
    }
    let mut tunnel = agent.connect_port(ECHO).await.unwrap();
    tunnel.write_all(b"ping").await.unwrap();
    let mut pong = [0; 4];
    timeout(SOON, tunnel.read_exact(&mut pong)).await.unwrap().unwrap();
}

#[tokio::test]
async fn hundreds_of_tunnels_reset_at_once_do_not_affect_others() {
    let (agent, mut received_by_agent) = agent();
    let mut other = agent.connect_port(ECHO).await.unwrap();
    for port in [ECHO, FLOOD, ECHO, FLOOD] {
        let opened = futures::future::join_all((0..384).map(|_| agent.connect_port(port))).await;
        let opened: Vec<Tunnel> = opened.into_iter().map(Result::unwrap).collect();
        drop(opened);
        // Some are cancelled while they are being opened.
        let cancelled: Vec<_> = (0..100).map(|_| agent.connect_port(port).now_or_never().is_none()).collect();
        assert!(cancelled.iter().all(|pending| *pending));
    }
    other.write_all(b"still here").await.unwrap();
    other.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut other).await.0, b"still here");
    while received(&mut received_by_agent).await != Received::End(b"still here".into()) {}
}

fn wanted(id: u64, host: &str, port: u32) -> OutgoingConnection {
    OutgoingConnection { id, host: host.into(), port, via: v1::Via::Connect.into() }
}

#[tokio::test]
async fn outgoing_connections_are_accepted_or_refused() {
    let waiting = vec![wanted(4, "example.org", 443), wanted(5, "2001:db8::1", 80)];
    let (agent, mut received_by_agent) = agent_with(waiting);
    let mut outgoing = agent.outgoing();
    let first = timeout(SOON, outgoing.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((first.host.as_str(), first.port, first.via), ("example.org", 443, Via::Connect));
    let mut tunnel = first.accept().await.unwrap();
    tunnel.write_all(b"hello").await.unwrap();
    tunnel.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut tunnel).await.0, b"hello");
    assert_eq!(received(&mut received_by_agent).await, Received::End(b"hello".into()));

    let second = timeout(SOON, outgoing.next()).await.unwrap().unwrap().unwrap();
    second.refuse(RefusedReason::Policy, "not this one").await.unwrap();
    let policy = v1::RefusedReason::Policy.into();
    assert_eq!(received(&mut received_by_agent).await, Received::Refused(policy, "not this one".into()));
    assert!(timeout(STILL, outgoing.next()).await.is_err(), "no other connection is requested");
    agent.close();
    assert!(matches!(timeout(SOON, outgoing.next()).await.unwrap(), Some(Err(Error::Broken { .. }))));
    assert!(timeout(SOON, outgoing.next()).await.unwrap().is_none());
}

#[tokio::test]
async fn host_and_port_from_an_agent_are_validated() {
    let strange = [("", 443), ("a b", 443), ("a\n", 443), ("example.org", 0), ("example.org", 65_536)];
    let long = "x".repeat(256);
    for (host, port) in strange.into_iter().chain([(long.as_str(), 443)]) {
        let (agent, _received) = agent_with(vec![wanted(1, host, port)]);
        let result = timeout(SOON, agent.outgoing().next()).await.unwrap().unwrap();
        assert!(matches!(result, Err(Error::Malformed { .. })), "{host:?}:{port}: {result:?}");
    }
    let (agent, _received) = agent();
    let listening = agent.listening().await.unwrap();
    assert!(listening.truncated && listening.ports.len() == limits::MAX_LISTENING);
    let process = listening.ports[0].process.as_ref().unwrap();
    assert!(process.name.starts_with("no?de") && process.name.len() == limits::MAX_PROCESS_NAME_BYTES);
}

#[tokio::test]
async fn an_agent_without_tunnels_is_outdated() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let ours = Mutex::new(Some(ours));
    tokio::spawn(async move {
        theirs.write_all(b"sandbox-agent 3 right\n").await.unwrap();
        // The answer of an agent to a call that it does not know.
        let unknown = tower::service_fn(|_: http::Request<hyper::body::Incoming>| async {
            Ok::<_, std::convert::Infallible>(Status::unimplemented("").into_http::<tonic::body::Body>())
        });
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(unknown))
            .await;
    });
    let dial = move || {
        let ours = ours.lock().unwrap().take();
        async move { Ok(Box::pin(ours.ok_or(ErrorKind::ConnectionRefused)?) as Pin<Box<dyn crate::Duplex>>) }
            .boxed()
    };
    let agent = AgentHandle::dial("right".into(), Box::new(dial));
    assert!(matches!(agent.connect_port(80).await.unwrap_err(), Error::Outdated));
    assert!(matches!(agent.listening().await.unwrap_err(), Error::Outdated));
    assert!(matches!(agent.outgoing().next().await, Some(Err(Error::Outdated))));
}
