//! The agent's connection to sandboxd.
//!
//! The agent dials, greets, and then serves gRPC on what it opened, until the connection ends; then it dials
//! again, for as long as the sandbox lives. Commands never notice. Where the socket cannot be shared with
//! the container, `sandbox-agent dial` (started by the engine, as root without capabilities) carries the
//! same bytes between its own stdio and the agent's abstract socket.

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::time::Duration;

use agent_protocol::greeting::Greeting;
use agent_protocol::{
    CONNECTION_WINDOW_BYTES, GENERATION, MAX_CALLS, MAX_FRAME_BYTES, SOCKET_BUFFER_BYTES, STREAM_WINDOW_BYTES,
};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::unix::pipe;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};

use crate::environment::DIAL_NAME;
use crate::rpc::{Service, Services};

/// Pause before the second try to reach sandboxd; doubled up to [`REDIAL_MAX`].
const REDIAL_FIRST: Duration = Duration::from_millis(20);
const REDIAL_MAX: Duration = Duration::from_secs(1);

/// A connection that lived this long was a good one: the next pause is short again.
const GOOD_CONNECTION: Duration = Duration::from_secs(5);

/// Bytes on their way to sandboxd per stream before the sender waits. Hundreds of tunnels can have as much each, while
/// sandboxd is slow.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Connections of `sandbox-agent dial` served at once; an old one may linger while a new one comes.
const MAX_DIALLED: usize = 4;

/// Dials `socket` for ever and serves on each connection.
pub(crate) async fn dial_out(socket: &Path, secret: &str, service: &Service) {
    let mut pause = REDIAL_FIRST;
    loop {
        let began = Instant::now();
        if let Ok(stream) = UnixStream::connect(socket).await {
            // With less it is slower and no less right.
            let _ = set_socket_send_buffer_size(&stream, SOCKET_BUFFER_BYTES);
            // How a connection ended changes nothing: the next one is dialled either way.
            let _ = serve(stream, secret, service.clone()).await;
        }
        if began.elapsed() >= GOOD_CONNECTION {
            pause = REDIAL_FIRST;
        }
        sleep(pause).await;
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

/// Takes the agent's abstract name. Must come before the first command, which could take it instead.
pub(crate) fn bind_dial_name() -> io::Result<UnixListener> {
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(DIAL_NAME)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Serves those who come through `sandbox-agent dial`.
pub(crate) async fn accept_dialled(listener: UnixListener, secret: &str, service: &Service) {
    let places = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_DIALLED));
    while let Ok((stream, _)) = listener.accept().await {
        // Commands can reach the name too, but none of them can be root.
        let by_engine = stream.peer_cred().is_ok_and(|peer| peer.uid() == 0);
        let Ok(place) = std::sync::Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        if by_engine {
            let (service, secret) = (service.clone(), secret.to_owned());
            tokio::spawn(async move {
                let _ = serve(stream, &secret, service).await;
                drop(place);
            });
        }
    }
}

/// What `sandbox-agent dial` does: stdio to the agent and back, until either side ends.
pub(crate) async fn bridge_stdio() -> io::Result<()> {
    let stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(DIAL_NAME)?)?;
    stream.set_nonblocking(true)?;
    let mut agent = UnixStream::from_std(stream)?;
    if agent.peer_cred()?.pid() != Some(1) {
        return Err(io::Error::other("the agent's name belongs to another process"));
    }
    // The engine gives a process without a terminal pipes, so no thread has to block on them.
    let from_engine = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let to_engine = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    let mut stdio = tokio::io::join(from_engine, to_engine);
    copy_bidirectional(&mut stdio, &mut agent).await?;
    Ok(())
}

async fn serve(mut stream: UnixStream, secret: &str, service: Service) -> io::Result<()> {
    let greeting = Greeting { generation: GENERATION, secret: secret.to_owned() };
    stream.write_all(greeting.to_line().as_bytes()).await?;
    http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(MAX_CALLS)
        // hyper counts calls that are broken off, against strangers. sandboxd is none, and may end any number of
        // tunnels at once.
        .max_pending_accept_reset_streams(MAX_CALLS as usize)
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(Services::new(&service)))
        .await
        .map_err(io::Error::other)
}
