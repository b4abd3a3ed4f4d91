//! The agent's connection to sandboxd.
//!
//! The agent dials sandboxd, sends a greeting, and serves gRPC on the connection until it ends. Then it dials again,
//! as long as the sandbox exists. Commands are not affected. If the socket cannot be shared with the container,
//! `sandbox-agent dial` carries the same bytes between its own stdio and the agent's abstract socket. The engine
//! starts that process as root without capabilities.

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

/// Pause before the second attempt to reach sandboxd. It doubles up to [`REDIAL_MAX`].
const REDIAL_FIRST: Duration = Duration::from_millis(20);
const REDIAL_MAX: Duration = Duration::from_secs(1);

/// A connection that lived at least this long resets the pause.
const GOOD_CONNECTION: Duration = Duration::from_secs(5);

/// Bytes per stream on their way to sandboxd before the sender waits. While sandboxd is slow, hundreds of tunnels can
/// each hold this much.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Maximum number of connections from `sandbox-agent dial`. An old one may linger when a new one arrives.
const MAX_DIALED: usize = 4;

/// Dials `socket` again and again, and serves each connection.
pub(crate) async fn dial_out(socket: &Path, secret: &str, service: &Service) {
    let mut pause = REDIAL_FIRST;
    loop {
        let began = Instant::now();
        if let Ok(stream) = UnixStream::connect(socket).await {
            // A smaller buffer is slower but correct.
            let _ = set_socket_send_buffer_size(&stream, SOCKET_BUFFER_BYTES);
            // The next connection is dialed no matter how this one ended.
            let _ = serve(stream, secret, service.clone()).await;
        }
        if began.elapsed() >= GOOD_CONNECTION {
            pause = REDIAL_FIRST;
        }
        sleep(pause).await;
        pause = (pause * 2).min(REDIAL_MAX);
    }
}

/// Binds the agent's abstract name. Must come before the first command, which could take it instead.
pub(crate) fn bind_dial_name() -> io::Result<UnixListener> {
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(DIAL_NAME)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Serves the connections that `sandbox-agent dial` makes.
pub(crate) async fn accept_dialed(listener: UnixListener, secret: &str, service: &Service) {
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(MAX_DIALED));
    while let Ok((stream, _)) = listener.accept().await {
        // Commands can reach the name too, but no command can be root.
        let by_engine = stream.peer_cred().is_ok_and(|peer| peer.uid() == 0);
        let Ok(permit) = std::sync::Arc::clone(&permits).try_acquire_owned() else {
            continue;
        };
        if by_engine {
            let (service, secret) = (service.clone(), secret.to_owned());
            tokio::spawn(async move {
                let _ = serve(stream, &secret, service).await;
                drop(permit);
            });
        }
    }
}

/// Runs `sandbox-agent dial`: copies bytes between stdio and the agent until either side ends.
pub(crate) async fn bridge_stdio() -> io::Result<()> {
    let stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(DIAL_NAME)?)?;
    stream.set_nonblocking(true)?;
    let mut agent = UnixStream::from_std(stream)?;
    if agent.peer_cred()?.pid() != Some(1) {
        return Err(io::Error::other("the agent's name belongs to another process"));
    }
    // The engine passes pipes to a process without a terminal, so no thread has to block on them.
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
        // hyper limits the number of reset calls as a protection against untrusted peers. sandboxd is trusted and may
        // close any number of tunnels at once.
        .max_pending_accept_reset_streams(MAX_CALLS as usize)
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(Services::new(&service)))
        .await
        .map_err(io::Error::other)
}
