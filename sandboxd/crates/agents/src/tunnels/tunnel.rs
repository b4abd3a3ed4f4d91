//! One tunnel, as a stream of bytes in both directions.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use agent_protocol::MAX_PART_BYTES;
use agent_protocol::v1::tunnel_part::Part;
use agent_protocol::v1::{End, TunnelPart};
use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::PollSender;
use tonic::{Response, Status, Streaming};

use super::super::Error;
use super::super::command::within;
use sandboxd_model::limits;

/// The parts that a call of a tunnel sends.
pub(super) type Parts = ReceiverStream<TunnelPart>;

/// State of the direction from the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
    Reset,
}

/// A connection to or from a process of a sandbox.
///
/// `shutdown` ends the direction to the process and leaves the other. Dropping the tunnel before both directions
/// have ended resets it, and the process's connection ends abruptly. A reset from the other end is
/// [`io::ErrorKind::ConnectionReset`], and so is the loss of the agent. Written bytes are sent at once, so there is
/// nothing to flush.
#[derive(Debug)]
pub struct Tunnel {
    /// Present until the drop.
    answers: Option<Streaming<TunnelPart>>,
    unread: Bytes,
    reading: Reading,
    parts: PollSender<TunnelPart>,
    write_ended: bool,
}

impl Tunnel {
    /// Makes a call that begins with `first`, and waits until the agent reports that the tunnel is open.
    pub(super) async fn open(
        first: Part,
        call: impl AsyncFnOnce(Parts) -> Result<Response<Streaming<TunnelPart>>, Status>,
    ) -> Result<Self, Error> {
        let (parts, sent) = mpsc::channel(limits::TUNNEL_PARTS);
        // The channel has room, and its receiver exists.
        let _ = parts.try_send(TunnelPart { part: Some(first) });
        let opening = async {
            let mut answers = call(ReceiverStream::new(sent)).await?.into_inner();
            let opened = answers.message().await?;
            Ok((answers, opened))
        };
        let (answers, opened) = within(limits::TUNNEL_OPEN, opening).await?;
        match opened.and_then(|opened| opened.part) {
            Some(Part::Opened(_)) => Ok(Self {
                answers: Some(answers),
                unread: Bytes::new(),
                reading: Reading::Open,
                parts: PollSender::new(parts),
                write_ended: false,
            }),
            _ => Err(Error::Malformed { missing: "opened" }),
        }
    }

    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(answers) = &mut self.answers
            && self.unread.is_empty()
            && self.reading == Reading::Open
        {
            let part = ready!(Pin::new(answers).poll_next(context));
            match part.transpose() {
                Ok(Some(TunnelPart { part: Some(Part::Data(data)) })) => self.unread = data,
                Ok(Some(TunnelPart { part: Some(Part::End(_)) })) => self.reading = Reading::Ended,
                // A call that ends without a message about the end was reset.
                Ok(_) => self.reading = Reading::Reset,
                Err(status) => {
                    self.reading = Reading::Reset;
                    return Poll::Ready(Err(reset_by(Error::from(status))));
                }
            }
        }
        Poll::Ready(match self.reading {
            Reading::Reset if self.unread.is_empty() => Err(io::ErrorKind::ConnectionReset.into()),
            Reading::Open | Reading::Ended | Reading::Reset => Ok(()),
        })
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        // The call has ended and takes no more parts.
        self.parts.poll_reserve(context).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn send(&mut self, part: Part) -> io::Result<()> {
        let part = TunnelPart { part: Some(part) };
        self.parts.send_item(part).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Tunnel {
    /// If both directions have ended, the call continues until the last bytes have arrived: HTTP/2 discards what a
    /// dropped call has not sent yet.
    fn drop(&mut self) {
        let both_ended = self.write_ended && self.reading == Reading::Ended;
        let Some(mut answers) = self.answers.take().filter(|_| both_ended) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { timeout(limits::TUNNEL_CLOSE, answers.message()).await.map(drop) });
        }
    }
}

fn reset_by(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_unread(context))?;
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..length]);
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(context))?;
        let length = bytes.len().min(MAX_PART_BYTES);
        self.send(Part::Data(Bytes::copy_from_slice(&bytes[..length])))?;
        Poll::Ready(Ok(length))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        if all == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(context))?;
        let mut part = BytesMut::with_capacity(all.min(MAX_PART_BYTES));
        for slice in slices {
            let room = MAX_PART_BYTES - part.len();
            part.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let length = part.len();
        self.send(Part::Data(part.freeze()))?;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.write_ended {
            ready!(self.poll_room(context))?;
            self.send(Part::End(End {}))?;
            self.write_ended = true;
            self.parts.close();
        }
        Poll::Ready(Ok(()))
    }
}
