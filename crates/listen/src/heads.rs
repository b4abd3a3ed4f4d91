//! Where the head of each request begins and ends, and whether everybody reads it in one way.
//!
//! hyper takes more from a connection than the request it answers, and would read the next head in what it has. Here it gets
//! no byte of a head before the body in front of it is over, so each head is looked at from its first byte. The end of a
//! body of chunks is known only when its request is over: what a client sends behind it before that is refused.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::shape::{Head, Part};
use crate::waiting::{Seat, UNSEEN};

/// How a body of chunks ends, with its last chunk and the trailers (RFC 9112, section 7.1).
const END_OF_CHUNKS: [u8; 4] = *b"\r\n\r\n";

/// A connection that hands out the parts of its requests one by one.
pub(crate) struct Heads<S> {
    stream: S,
    seat: Arc<Seat>,
    next: Next,
    /// What has come of the parts after the one that is handed out.
    held: BytesMut,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Next {
    Head(Head),
    /// What follows a head, which is known as soon as its request is taken.
    Unknown,
    Body(u64),
    /// A body of chunks; its last bytes.
    Chunks([u8; 4]),
    /// Of no request: this one is the last.
    Rest,
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, seat: Arc<Seat>) -> Self {
        Self { stream, seat, next: Next::Head(Head::default()), held: BytesMut::new() }
    }

    /// Takes note of what happened to the request since its head was handed out.
    fn follow(&mut self) {
        if self.seat.is_upgraded() {
            self.next = Next::Rest;
        }
        match self.next {
            Next::Unknown if self.seat.has_taken_every_head() => {
                self.next = match self.seat.body_bytes() {
                    Some(0) => Next::Head(Head::default()),
                    Some(bytes) => Next::Body(bytes),
                    None => Next::Chunks([0; 4]),
                };
            }
            Next::Chunks(END_OF_CHUNKS) if self.seat.is_waiting() => self.next = Next::Head(Head::default()),
            // The answer came before the end of the body, whose rest is no head.
            Next::Chunks(_) if self.seat.is_waiting() => {
                self.seat.odd_head(UNSEEN);
                self.next = Next::Rest;
            }
            _ => {}
        }
    }

    /// How many of these bytes are of the same part as the first.
    fn take(&mut self, bytes: &[u8]) -> usize {
        match &mut self.next {
            Next::Head(head) => match head.read(bytes) {
                Part::Some => bytes.len(),
                Part::End(length) => {
                    self.seat.saw_head();
                    self.next = Next::Unknown;
                    length
                }
                Part::Odd(problem) => {
                    // Its request is refused, and none is taken after it.
                    self.seat.saw_head();
                    self.seat.odd_head(problem);
                    self.next = Next::Rest;
                    bytes.len()
                }
            },
            Next::Body(left) => {
                let length = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                if *left == 0 {
                    self.next = Next::Head(Head::default());
                }
                length
            }
            Next::Chunks(last) => {
                let kept = bytes.len().min(last.len());
                last.rotate_left(kept);
                let from = last.len() - kept;
                last[from..].copy_from_slice(&bytes[bytes.len() - kept..]);
                bytes.len()
            }
            Next::Unknown | Next::Rest => bytes.len(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.follow();
        if matches!(this.next, Next::Unknown) {
            // hyper has the whole head. It takes the request before it needs anything else, and then reads again.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if this.held.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let come = &buffer.filled()[before..];
            let taken = this.take(come);
            this.held.extend_from_slice(&come[taken..]);
            buffer.set_filled(before + taken);
        } else {
            let held = std::mem::take(&mut this.held);
            let room = held.len().min(buffer.remaining());
            let taken = this.take(&held[..room]);
            buffer.put_slice(&held[..taken]);
            this.held = held;
            this.held.advance(taken);
        }
        if this.held.is_empty() {
            this.held = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
