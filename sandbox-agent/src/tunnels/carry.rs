//! A tunnel's bytes, between a socket in the sandbox and a call of sandboxd.
//!
//! Each direction has a task and nothing in between: the call's answer reads the socket when HTTP/2 has room for it, and
//! [`write`] writes what the call brings. So a direction that stands still holds up itself alone. The surprise: the
//! answer must not end before both directions have, because with it HTTP/2 ends the call.

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
use crate::limits::{LAST_BYTES, MIN_PART_BYTES};

/// What a tunnel ends in.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whoever is at the other end shall see that the drop which follows is not the end of the data.
    fn reset(&mut self);
}

impl Socket for TcpStream {
    fn reset(&mut self) {
        // Fails only on what is no socket any more.
        let _ = self.set_zero_linger();
    }
}

/// How the direction into the socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Open,
    Ended,
    /// The socket takes no more. What it has brought before is there to be read, and then comes the reset.
    Broken,
    Reset,
}

/// Why the direction into the socket did not come to its end.
enum Cut {
    BySocket,
    ByCall,
}

struct State<S> {
    /// Taken away by a reset.
    socket: Option<S>,
    writing: Writing,
    /// The socket's side has said all it has to say.
    read_to_end: bool,
    _place: Option<OwnedSemaphorePermit>,
}

struct Shared<S> {
    /// Never locked across an await.
    state: Mutex<State<S>>,
    answer: AtomicWaker,
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        memory::give_back_soon();
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

/// Carries bytes between `socket` and a call: what `parts` brings goes into the socket, and what the socket brings, after
/// `early`, is the call's answer, with `opened` before it. `place` is given back when both directions have ended.
pub(crate) fn carry<S, P>(
    socket: S,
    early: Bytes,
    parts: P,
    place: Option<OwnedSemaphorePermit>,
) -> impl Stream<Item = Result<TunnelPart, Status>> + Send
where
    S: Socket,
    P: Stream<Item = Result<TunnelPart, Status>> + Unpin + Send + 'static,
{
    let state = State { socket: Some(socket), writing: Writing::Open, read_to_end: false, _place: place };
    let shared = Arc::new(Shared { state: Mutex::new(state), answer: AtomicWaker::new() });
    let (present, gone) = oneshot::channel();
    tokio::spawn(write(Arc::clone(&shared), parts, gone));
    Answer {
        shared,
        ready: early,
        buffer: BytesMut::new(),
        part_bytes: MIN_PART_BYTES,
        phase: Phase::Opening,
        present: Some(present),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Reading,
    /// Only the other direction is left.
    Ended,
    Over,
}

/// What the socket brings, as the answer of a call.
struct Answer<S: Socket> {
    shared: Arc<Shared<S>>,
    /// What was read and not sent yet.
    ready: Bytes,
    buffer: BytesMut,
    part_bytes: usize,
    phase: Phase,
    /// Its drop tells [`write`] that nobody reads the answer any more.
    present: Option<oneshot::Sender<()>>,
}

impl<S: Socket> Stream for Answer<S> {
    type Item = Result<TunnelPart, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_part(context).map(|part| part.map(|part| Ok(TunnelPart { part: Some(part) })))
    }
}

impl<S: Socket> Answer<S> {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Part>> {
        match self.phase {
            Phase::Over => return Poll::Ready(None),
            Phase::Opening => {
                self.phase = Phase::Reading;
                return Poll::Ready(Some(Part::Opened(Opened {})));
            }
            Phase::Reading | Phase::Ended => {}
        }
        // Before the look, so that what the other direction does meanwhile is not missed.
        self.shared.answer.register(context.waker());
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        match (state.writing, self.phase) {
            (Writing::Reset, _) => Poll::Ready(Some(self.reset(&mut state))),
            (Writing::Ended, Phase::Ended) => {
                self.phase = Phase::Over;
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
        self.buffer.reserve(self.part_bytes);
        match poll_read_buf(Pin::new(socket), context, &mut self.buffer) {
            Poll::Pending => {
                // A tunnel that waits keeps no memory.
                self.buffer = BytesMut::new();
                Poll::Pending
            }
            // The kernel tells of a reset once, and has told it to the other direction.
            Poll::Ready(Ok(0)) if state.writing == Writing::Broken => Poll::Ready(self.reset(state)),
            Poll::Ready(Ok(0)) => {
                self.phase = Phase::Ended;
                state.read_to_end = true;
                Poll::Ready(Part::End(End {}))
            }
            Poll::Ready(Ok(length)) => {
                self.part_bytes = (2 * length).clamp(MIN_PART_BYTES, MAX_PART_BYTES);
                let part = self.buffer.split_to(self.buffer.len().min(MAX_PART_BYTES));
                self.ready = self.buffer.split().freeze();
                Poll::Ready(Part::Data(part.freeze()))
            }
            Poll::Ready(Err(_)) => Poll::Ready(self.reset(state)),
        }
    }

    fn reset(&mut self, state: &mut State<S>) -> Part {
        state.reset();
        self.phase = Phase::Over;
        self.present = None;
        Part::Reset(Reset {})
    }
}

/// Nobody hears the rest of what the socket has to say.
impl<S: Socket> Drop for Answer<S> {
    fn drop(&mut self) {
        if matches!(self.phase, Phase::Opening | Phase::Reading) {
            self.shared.lock().reset();
        }
    }
}

/// Writes what the call brings into the socket, to its end.
async fn write<S: Socket>(
    shared: Arc<Shared<S>>,
    parts: impl Stream<Item = Result<TunnelPart, Status>> + Unpin,
    gone: oneshot::Receiver<()>,
) {
    let ended = tokio::select! {
        biased;
        ended = write_parts(&shared, parts) => ended,
        () = given_up(&shared, gone) => Err(Cut::ByCall),
    };
    match ended {
        Ok(()) => shared.lock().writing = Writing::Ended,
        Err(Cut::BySocket) => shared.lock().writing = Writing::Broken,
        Err(Cut::ByCall) => shared.lock().reset(),
    }
    shared.answer.wake();
}

/// Until nobody reads the answer. One who heard the socket's last byte first may leave before all of its own have been
/// written.
async fn given_up<S: Socket>(shared: &Shared<S>, gone: oneshot::Receiver<()>) {
    // Nothing is ever sent: it resolves with the drop of the answer.
    let _ = gone.await;
    if shared.lock().read_to_end {
        sleep(LAST_BYTES).await;
    }
}

async fn write_parts<S: Socket>(
    shared: &Shared<S>,
    mut parts: impl Stream<Item = Result<TunnelPart, Status>> + Unpin,
) -> Result<(), Cut> {
    while let Some(Ok(part)) = parts.next().await {
        match part.part {
            Some(Part::Data(data)) => write_all(shared, data).await.map_err(|_| Cut::BySocket)?,
            Some(Part::End(_)) => {
                let shutdown = on_socket(shared, |socket, context| socket.poll_shutdown(context));
                return shutdown.await.map_err(|_| Cut::BySocket);
            }
            Some(Part::Reset(_) | Part::Opened(_) | Part::Connect(_) | Part::Accept(_)) | None => break,
        }
    }
    Err(Cut::ByCall)
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
