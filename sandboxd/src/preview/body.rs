//! Bodies of requests and responses.
//!
//! A response's body ends early if its link ends, and keeps the sandbox in use until then. A request's body records its
//! progress, because a slow upload must not count as a silent server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use listen::unread::TrackedBody;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::service::{self, Link, PreviewUse};

/// Body of a response to a visitor.
pub(super) type PreviewBody = UnsyncBoxBody<Bytes, BodyError>;

/// Why a response's body is incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The server or the connection to it failed.
    #[error("the connection to the server broke")]
    Server(#[source] hyper::Error),
    /// The link has ended.
    #[error("the link has ended")]
    LinkEnded,
    /// The file could not be read to its end.
    #[error("the file could not be read to its end")]
    File(#[source] service::Error),
}

/// A request's body is incomplete or malformed.
#[derive(Debug, thiserror::Error)]
#[error("the visitor's body is incomplete or malformed")]
pub(super) struct Unreadable(#[source] hyper::Error);

/// Empty body.
pub(super) fn empty() -> PreviewBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Body with a text of the gateway.
pub(super) fn text(text: String) -> PreviewBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// Body of a request on its way to the server.
pub(super) struct Upload {
    /// `None` if the body is empty.
    body: Option<TrackedBody>,
    active_at: watch::Sender<Instant>,
}

/// When the server last accepted a part of a request's body.
pub(super) struct UploadProgress(watch::Receiver<Instant>);

/// Makes a request's body record its progress.
pub(super) fn track_upload(request: Request<TrackedBody>) -> (Request<Upload>, UploadProgress) {
    let (active_at, progress) = watch::channel(Instant::now());
    (
        request.map(|body| Upload { body: Some(body).filter(|body| !body.is_end_stream()), active_at }),
        UploadProgress(progress),
    )
}

impl Upload {
    /// Returns a copy if the body is empty. Any other body can be sent only once.
    pub(super) fn try_clone(&self) -> Option<Self> {
        let is_empty = self.body.is_none();
        is_empty.then(|| Self { body: None, active_at: self.active_at.clone() })
    }
}

impl UploadProgress {
    /// Resolves when no part was accepted for this long. A large body on a slow line does not mean that the server is silent.
    pub(super) async fn idle_for(&self, bound: Duration) {
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
            self.active_at.send_replace(Instant::now());
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

/// Wraps the body of a server's response. It keeps the sandbox in use until its end, and ends with the link.
pub(super) fn response(body: Incoming, link: &Link, used: PreviewUse) -> PreviewBody {
    ResponseBody { body, link_ended: Box::pin(link.ended()), _used: used }.boxed_unsync()
}

/// Body of a server's response.
struct ResponseBody {
    body: Incoming,
    link_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    _used: PreviewUse,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.link_ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(BodyError::LinkEnded)));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BodyError::Server)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
