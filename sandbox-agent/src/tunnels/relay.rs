//! Copies the bytes of a tunnel between a socket in the sandbox and a call of sandboxd.
//!
//! Each direction is its own task without buffers in between. The call's response reads the socket when HTTP/2 has
//! room, and [`write`] writes the call's data to the socket. A direction that stalls therefore blocks only itself.
//! The response must not end before both directions have ended, because HTTP/2 ends the call with it.
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use agent_protocol::MAX_PART_BYTES;
use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::{End, Opened, Reset, TunnelPart};
use bytes::{Buf, Bytes, BytesMut};
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::sleep;
use tokio_util::io::poll_read_buf;
use tonic::Status;

use super::memory;
use crate::limits::{DRAIN_AFTER_CLOSE, MIN_CHUNK_BYTES};

/// The sandbox's end of a tunnel.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the drop that follows look like a reset to the peer, not like the end of the data.
    fn reset(&mut self);
}

impl Socket for TcpStream {
    fn reset(&mut self) {
        // Fails only if the socket is closed.
        let _ = self.set_zero_linger();
    }
}

/// State of the direction into the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Open,
    Ended,
    /// The socket accepts no more data. What it sent before can still be read. Then the reset follows.
    Broken,
    Reset,
}

/// Why the direction into the socket ended early.
enum WriteError {
    BySocket,
    ByCall,
}

struct State<S> {
    /// `None` after a reset.
    socket: Option<S>,
    writing: Writing,
    /// The socket's peer has sent all of its data.
    read_to_end: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

struct Shared<S> {
    /// Never locked across an await.
    state: Mutex<State<S>>,
    response: AtomicWaker,
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        memory::trim_soon();
    }
}

impl<S: Socket> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Socket> State<S> {
    fn reset(&mut self) {
        self.writing = Writing::Reset;
        if let Some(mut socket) = self.socket.take() {
            socket.reset();
        }
    }
}

/// Copies bytes between `socket` and a call. The data of `parts` is written to the socket. The data of the socket,
/// after `early`, is the call's response, which starts with `opened`. `permit` is released when both directions have
/// ended.
pub(crate) fn relay<S, P>(
    socket: S,
    early: Bytes,
    parts: P,
    permit: Option<OwnedSemaphorePermit>,
) -> impl Stream<Item = Result<TunnelPart, Status>> + Send
where
    S: Socket,
    P: Stream<Item = Result<TunnelPart, Status>> + Unpin + Send + 'static,
{
    let state = State { socket: Some(socket), writing: Writing::Open, read_to_end: false, _permit: permit };
    let shared = Arc::new(Shared { state: Mutex::new(state), response: AtomicWaker::new() });
    let (alive, dropped) = oneshot::channel();
    tokio::spawn(write(Arc::clone(&shared), parts, dropped));
    ResponseStream {
        shared,
        ready: early,
        buffer: BytesMut::new(),
        chunk_bytes: MIN_CHUNK_BYTES,
        phase: Phase::Opening,
        alive: Some(alive),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Reading,
    /// Only the other direction is open.
    Ended,
    Closed,
}

/// The data of the socket as the response of a call.
struct ResponseStream<S: Socket> {
    shared: Arc<Shared<S>>,
    /// Data that was read and not sent yet.
    ready: Bytes,
    buffer: BytesMut,
    chunk_bytes: usize,
    phase: Phase,
    /// Dropped to notify [`write`] that the response is no longer read.
    alive: Option<oneshot::Sender<()>>,
}

impl<S: Socket> Stream for ResponseStream<S> {
    type Item = Result<TunnelPart, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_part(context).map(|part| part.map(|part| Ok(TunnelPart { part: Some(part) })))
    }
}

impl<S: Socket> ResponseStream<S> {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Part>> {
        match self.phase {
            Phase::Closed => return Poll::Ready(None),
            Phase::Opening => {
                self.phase = Phase::Reading;
                return Poll::Ready(Some(Part::Opened(Opened {})));
            }
            Phase::Reading | Phase::Ended => {}
        }
        // Registered before the check, so that no change of the other direction is missed.
        self.shared.response.register(context.waker());
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        match (state.writing, self.phase) {
            (Writing::Reset, _) => Poll::Ready(Some(self.reset(&mut state))),
            (Writing::Ended, Phase::Ended) => {
                self.phase = Phase::Closed;
                Poll::Ready(None)
            }
            (Writing::Open, Phase::Ended) => Poll::Pending,
            (Writing::Broken, Phase::Ended) => Poll::Ready(Some(self.reset(&mut state))),
            (Writing::Open | Writing::Ended | Writing::Broken, _) => {
                self.poll_socket(&mut state, context).map(Some)
            }
        }
    }

    fn poll_socket(&mut self, state: &mut State<S>, context: &mut Context<'_>) -> Poll<Part> {
        if !self.ready.is_empty() {
            return Poll::Ready(Part::Data(self.ready.split_to(self.ready.len().min(MAX_PART_BYTES))));
        }
        let Some(socket) = &mut state.socket else {
            return Poll::Ready(self.reset(state));
        };
        self.buffer.reserve(self.chunk_bytes);
        match poll_read_buf(Pin::new(socket), context, &mut self.buffer) {
            Poll::Pending => {
                // An idle tunnel keeps no memory.
                self.buffer = BytesMut::new();
                Poll::Pending
            }
            // The kernel reports a reset once, and the other direction has received it.
            Poll::Ready(Ok(0)) if state.writing == Writing::Broken => Poll::Ready(self.reset(state)),
            Poll::Ready(Ok(0)) => {
                self.phase = Phase::Ended;
                state.read_to_end = true;
                Poll::Ready(Part::End(End {}))
            }
            Poll::Ready(Ok(length)) => {
                self.chunk_bytes = (2 * length).clamp(MIN_CHUNK_BYTES, MAX_PART_BYTES);
                let part = self.buffer.split_to(self.buffer.len().min(MAX_PART_BYTES));
                self.ready = self.buffer.split().freeze();
                Poll::Ready(Part::Data(part.freeze()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(self.reset(state)),
        }
    }

    fn reset(&mut self, state: &mut State<S>) -> Part {
        state.reset();
        self.phase = Phase::Closed;
        self.alive = None;
        Part::Reset(Reset {})
    }
}

/// Resets the socket, because the rest of its data is no longer read.
impl<S: Socket> Drop for ResponseStream<S> {
    fn drop(&mut self) {
        if matches!(self.phase, Phase::Opening | Phase::Reading) {
            self.shared.lock().reset();
        }
    }
}

/// Writes the call's data to the socket until either ends.
async fn write<S: Socket>(
    shared: Arc<Shared<S>>,
    parts: impl Stream<Item = Result<TunnelPart, Status>> + Unpin,
    dropped: oneshot::Receiver<()>,
) {
    let ended = tokio::select! {
        biased;
        ended = write_parts(&shared, parts) => ended,
        () = response_dropped(&shared, dropped) => Err(WriteError::ByCall),
    };
    match ended {
        Ok(()) => shared.lock().writing = Writing::Ended,
        Err(WriteError::BySocket) => shared.lock().writing = Writing::Broken,
        Err(WriteError::ByCall) => shared.lock().reset(),
    }
    shared.response.wake();
}

/// Waits until the response is no longer read. A client that has read all of the socket's data may disconnect before
/// all of its own data is written.
async fn response_dropped<S: Socket>(shared: &Shared<S>, dropped: oneshot::Receiver<()>) {
    // Nothing is ever sent. The receiver resolves when the response is dropped.
    let _ = dropped.await;
    if shared.lock().read_to_end {
        sleep(DRAIN_AFTER_CLOSE).await;
    }
}

async fn write_parts<S: Socket>(
    shared: &Shared<S>,
    mut parts: impl Stream<Item = Result<TunnelPart, Status>> + Unpin,
) -> Result<(), WriteError> {
    while let Some(Ok(part)) = parts.next().await {
        match part.part {
            Some(Part::Data(data)) => write_all(shared, data).await.map_err(|_| WriteError::BySocket)?,
            Some(Part::End(_)) => {
                let shutdown = on_socket(shared, |socket, context| socket.poll_shutdown(context));
                return shutdown.await.map_err(|_| WriteError::BySocket);
            }
            Some(Part::Reset(_) | Part::Opened(_) | Part::Connect(_) | Part::Accept(_)) | None => break,
        }
    }
    Err(WriteError::ByCall)
}

async fn write_all<S: Socket>(shared: &Shared<S>, mut data: Bytes) -> io::Result<()> {
    while !data.is_empty() {
        let written = on_socket(shared, |socket, context| socket.poll_write(context, &data)).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        data.advance(written);
    }
    Ok(())
}

async fn on_socket<S: Socket, T>(
    shared: &Shared<S>,
    mut act: impl FnMut(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    std::future::poll_fn(|context| match &mut shared.lock().socket {
        Some(socket) => act(Pin::new(socket), context),
        None => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
    })
    .await
}
