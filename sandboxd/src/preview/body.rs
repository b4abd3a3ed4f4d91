//! What a visitor is sent: pages of ours, and servers' answers for as long as the link holds. And what he sends.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use listen::unread::Tracked;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::service::{Link, PreviewUse};

/// What a visitor is sent.
pub(super) type PreviewBody = UnsyncBoxBody<Bytes, BrokenOff>;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenOff {
    /// The server, or the way to it.
    #[error("the server broke off")]
    Server(#[source] hyper::Error),
    /// The link leads nowhere any more.
    #[error("the link is over")]
    Over,
}

/// What a visitor sends cannot be read to its end.
#[derive(Debug, thiserror::Error)]
#[error("the visitor's body broke off, or is none")]
pub(super) struct Unreadable(#[source] hyper::Error);

/// Nothing.
pub(super) fn empty() -> PreviewBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A text of ours.
pub(super) fn text(text: String) -> PreviewBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// What a visitor sends, as it goes to the server.
pub(super) struct Upload {
    /// `None` is nothing.
    body: Option<Tracked>,
    moved: watch::Sender<Instant>,
}

/// When something of it was taken last.
pub(super) struct Sent(watch::Receiver<Instant>);

/// A request whose body tells how it gets on.
pub(super) fn sent(request: Request<Tracked>) -> (Request<Upload>, Sent) {
    let (moved, sent) = watch::channel(Instant::now());
    (request.map(|body| Upload { body: Some(body).filter(|body| !body.is_end_stream()), moved }), Sent(sent))
}

impl Upload {
    /// The same once more, which only nothing can be.
    pub(super) fn again(&self) -> Option<Self> {
        let is_nothing = self.body.is_none();
        is_nothing.then(|| Self { body: None, moved: self.moved.clone() })
    }
}

impl Sent {
    /// Resolves when nothing of it was taken for so long: a large body on a slow line is no silence of the server's.
    pub(super) async fn silent_for(&self, bound: Duration) {
        loop {
            let until = *self.0.borrow() + bound;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Unreadable;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unreadable>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_ready() {
            self.moved.send_replace(Instant::now());
        }
        polled.map_err(Unreadable)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

/// What a server answers. The sandbox is in use until its end.
pub(super) fn answer(body: Incoming, link: &Link, used: PreviewUse) -> PreviewBody {
    Watched { body, over: Box::pin(link.ended()), _used: used }.boxed_unsync()
}

/// A server's answer on its way, for as long as the link holds. The sandbox is in use until its end.
struct Watched {
    body: Incoming,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _used: PreviewUse,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(BrokenOff::Over)));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BrokenOff::Server)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
