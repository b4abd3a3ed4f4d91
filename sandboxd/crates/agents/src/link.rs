//! One HTTP/2 connection to an agent, from its greeting to its end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use agent_protocol::greeting::{self, Greeting};
use agent_protocol::{
    CONNECTION_WINDOW_BYTES, MAX_CALLS, MAX_FRAME_BYTES, MAX_HEADER_LIST_BYTES, STREAM_WINDOW_BYTES,
};
use futures::FutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tower::Service;

use sandboxd_model::limits;

/// Bytes per stream that may be buffered for an agent before the sender waits.
const SEND_BUFFER_BYTES: usize = 512 * 1024;

/// Number of cancelled calls that are kept. Data that still arrives for a removed call counts as a fault of
/// the peer, and in the end costs the connection. Tunnels are often cancelled, many at a time.
const MAX_CANCELLED_CALLS: usize = 4 * MAX_CALLS as usize;
const BROKEN_OFF: Duration = Duration::from_secs(30);

/// An open connection.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) service: LinkService,
    /// Generation of the agent's protocol.
    pub(super) generation: u32,
}

impl Link {
    pub(super) fn is_open(&self) -> bool {
        !self.service.0.is_closed()
    }
}

/// The transport of the generated clients.
#[derive(Debug, Clone)]
pub(super) struct LinkService(SendRequest<Body>);

impl Service<Request<Body>> for LinkService {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    /// Always ready: HTTP/2 has no turns to wait for. For a closed connection, tonic would keep only the text of
    /// the error, from which the cause cannot be determined. The call fails with the cause.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.send_request(request).boxed()
    }
}

/// Runs the connection. Returns when it ends.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Checks the greeting and then opens HTTP/2. `stop` ends the connection and every call on it.
pub(super) async fn open<S>(
    mut stream: S,
    secret: &str,
    stop: CancellationToken,
) -> io::Result<(Link, Driver)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let greeting = timeout(limits::GREETING, read_greeting(&mut stream)).await??;
    let proven: bool = greeting.secret.as_bytes().ct_eq(secret.as_bytes()).into();
    if !proven {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the greeting has another secret"));
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        // Each such fault fails only the call whose response it was.
        .max_local_error_reset_streams(None)
        .max_concurrent_reset_streams(MAX_CANCELLED_CALLS)
        .reset_stream_duration(BROKEN_OFF)
        .handshake(TokioIo::new(Cancellable::new(stream, stop)))
        .await
        .map_err(io::Error::other)?;
    // The calls on the connection report how it ended.
    let driver = Box::pin(connection.map(drop));
    Ok((Link { service: LinkService(sender), generation: greeting.generation }, driver))
}

/// A stream that fails as soon as it is cancelled. It is not enough to drop the connection's driver: hyper
/// continues the running calls, and an agent that hangs answers none.
struct Cancellable<S> {
    stream: S,
    stop: CancellationToken,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Cancellable<S> {
    fn new(stream: S, stop: CancellationToken) -> Self {
        let stopped = Box::pin(stop.clone().cancelled_owned());
        Self { stream, stop, stopped }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.stop.is_cancelled() || self.stopped.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cancellable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// Writes do not check the cancellation, because each connection also reads, which does.
impl<S: AsyncWrite + Unpin> AsyncWrite for Cancellable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Reads up to the newline and not a byte further, because HTTP/2 begins there.
async fn read_greeting(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Greeting> {
    let mut line = Vec::with_capacity(greeting::MAX_BYTES);
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            byte if line.len() < greeting::MAX_BYTES => line.push(byte),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the greeting does not end")),
        }
    }
    Greeting::parse(&line)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "what came is not a greeting"))
}

#[cfg(test)]
mod tests {
    use agent_protocol::v1::InfoRequest;
    use agent_protocol::v1::agent_client::AgentClient;

    use super::*;

    async fn try_to_open(sent: &[u8]) -> io::ErrorKind {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        tokio::io::AsyncWriteExt::write_all(&mut theirs, sent).await.unwrap();
        drop(theirs);
        open(ours, "right", CancellationToken::new()).await.map(drop).unwrap_err().kind()
    }

    #[tokio::test]
    async fn a_call_on_a_closed_connection_is_reported_as_broken() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        tokio::io::AsyncWriteExt::write_all(&mut theirs, b"sandbox-agent 1 right\n").await.unwrap();
        let (link, driver) = open(ours, "right", CancellationToken::new()).await.unwrap();
        drop(theirs);
        driver.await;
        let mut client = AgentClient::with_origin(link.service, http::Uri::from_static("http://agent"));
        let status = client.info(InfoRequest {}).await.unwrap_err();
        assert!(crate::Error::from(status).is_broken());
    }

    #[tokio::test]
    async fn a_stop_ends_the_calls_of_an_agent_that_hangs() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        tokio::io::AsyncWriteExt::write_all(&mut theirs, b"sandbox-agent 1 right\n").await.unwrap();
        let stop = CancellationToken::new();
        let (link, driver) = open(ours, "right", stop.clone()).await.unwrap();
        let driver = tokio::spawn(driver);
        let mut service = link.service;
        let call = tokio::spawn(service.call(Request::new(Body::empty())));
        // Its first bytes show that it has begun.
        theirs.read_exact(&mut [0; 64]).await.unwrap();
        driver.abort();
        stop.cancel();
        timeout(limits::RECHECK, call).await.unwrap().unwrap().unwrap_err();
    }

    #[tokio::test]
    async fn an_agent_without_the_secret_is_rejected() {
        assert_eq!(try_to_open(b"sandbox-agent 1 wrong\n").await, io::ErrorKind::PermissionDenied);
        assert_eq!(try_to_open(b"GET / HTTP/1.1\n").await, io::ErrorKind::InvalidData);
        assert_eq!(try_to_open(&[b'x'; 1000]).await, io::ErrorKind::InvalidData);
        assert_eq!(try_to_open(b"sandbox-agent 1 ri").await, io::ErrorKind::UnexpectedEof);
    }

    /// Frames of RFC 9113, sections 6.5 and 6.7, that must be answered.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// An agent that sends frames to be answered, but reads no answers, is not read any more.
    #[tokio::test(start_paused = true)]
    async fn responses_to_a_flood_of_frames_do_not_accumulate() {
        const FLOOD_BYTES: usize = 8 * 1024 * 1024;
        for frame in [&SETTINGS[..], &PING[..]] {
            let (ours, mut theirs) = tokio::io::duplex(4096);
            tokio::io::AsyncWriteExt::write_all(&mut theirs, b"sandbox-agent 1 right\n").await.unwrap();
            let (_link, driver) = open(ours, "right", CancellationToken::new()).await.unwrap();
            let driver = tokio::spawn(driver);
            tokio::io::AsyncWriteExt::write_all(&mut theirs, &SETTINGS).await.unwrap();
            let flood = frame.repeat(FLOOD_BYTES / frame.len());
            // The clock advances only when no task has anything to do.
            let sent =
                timeout(limits::RECHECK, tokio::io::AsyncWriteExt::write_all(&mut theirs, &flood)).await;
            assert!(!matches!(sent, Ok(Ok(()))), "all of it was read, and the answers are in memory");
            driver.abort();
        }
    }
}
