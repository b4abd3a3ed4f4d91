//! Bodies that end with the session of their request.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http_body::{Frame, SizeHint};

/// Is ready when the session has ended.
pub(super) type Ended = Shared<BoxFuture<'static, ()>>;

/// The session has ended.
#[derive(Debug, thiserror::Error)]
#[error("the session has ended")]
struct SessionEnded;

/// A body that fails as soon as the session has ended.
struct UntilEnded {
    body: Body,
    ended: Ended,
}

/// Returns a body that fails as soon as the session has ended.
pub(super) fn until_ended(body: Body, ended: Ended) -> Body {
    Body::new(UntilEnded { body, ended })
}

impl http_body::Body for UntilEnded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.poll_unpin(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(SessionEnded))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
