//! Splits a connection into the heads and bodies of its requests, and checks each head.
//!
//! hyper reads more from a connection than the current request, and would parse the next head from its buffer. This
//! stream returns no byte of a head before the previous body has ended, so each head is checked from its first byte.
//! The end of a chunked body is only known when its request has ended. Data that a client sends after the body before
//! that is rejected.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::forward::{forward_shutdown, forward_writes};
use crate::shape::{Head, Part};
use crate::slot::{ConnectionSlot, UNSEEN};

/// The end of a chunked body, with its last chunk and the trailers (RFC 9112, section 7.1).
const END_OF_CHUNKS: [u8; 4] = *b"\r\n\r\n";

/// A stream that returns the parts of its requests one by one.
pub(crate) struct Heads<S> {
    stream: S,
    slot: Arc<ConnectionSlot>,
    next: Next,
    /// Data received after the part that is being returned.
    held: BytesMut,
}

/// The part that the next byte belongs to.
#[derive(Debug)]
enum Next {
    Head(Head),
    /// The part after a head. It is known as soon as hyper has taken the request.
    Unknown,
    Body(u64),
    /// A chunked body, with its last bytes.
    Chunks([u8; 4]),
    /// No further request is accepted.
    Ignored,
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, slot: Arc<ConnectionSlot>) -> Self {
        Self { stream, slot, next: Next::Head(Head::default()), held: BytesMut::new() }
    }

    /// Updates the state from what happened to the request since its head was returned.
    fn update(&mut self) {
        if self.slot.is_upgraded() {
            self.next = Next::Ignored;
        }
        match self.next {
            Next::Unknown if self.slot.has_taken_every_head() => {
                self.next = match self.slot.body_bytes() {
                    Some(0) => Next::Head(Head::default()),
                    Some(bytes) => Next::Body(bytes),
                    None => Next::Chunks([0; 4]),
                };
            }
            Next::Chunks(END_OF_CHUNKS) if self.slot.is_idle() => self.next = Next::Head(Head::default()),
            // The response came before the end of the body. The rest of the body is not a head.
            Next::Chunks(_) if self.slot.is_idle() => {
                self.slot.reject_head(UNSEEN);
                self.next = Next::Ignored;
            }
            _ => {}
        }
    }

    /// Returns how many of these bytes belong to the current part.
    fn consume(&mut self, bytes: &[u8]) -> usize {
        match &mut self.next {
            Next::Head(head) => match head.read(bytes) {
                Part::Continues => bytes.len(),
                Part::End(length) => {
                    self.slot.head_checked();
                    self.next = Next::Unknown;
                    length
                }
                Part::Invalid(problem) => {
                    // Its request is rejected, and no other is accepted after it.
                    self.slot.head_checked();
                    self.slot.reject_head(problem);
                    self.next = Next::Ignored;
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
            Next::Unknown | Next::Ignored => bytes.len(),
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
        this.update();
        if matches!(this.next, Next::Unknown) {
            // hyper has the whole head. It takes the request before it needs more data, and then reads again.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        if this.held.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let received = &buffer.filled()[before..];
            let consumed = this.consume(received);
            this.held.extend_from_slice(&received[consumed..]);
            buffer.set_filled(before + consumed);
        } else {
            let held = std::mem::take(&mut this.held);
            let room = held.len().min(buffer.remaining());
            let consumed = this.consume(&held[..room]);
            buffer.put_slice(&held[..consumed]);
            this.held = held;
            this.held.advance(consumed);
        }
        if this.held.is_empty() {
            this.held = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    forward_writes!();
    forward_shutdown!();
}
