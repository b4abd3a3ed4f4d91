//! Announces the end of a connection if its request was answered before it was read.
//!
//! The rest of the body would be taken for the next request, so the connection is closed after such a response.
//! Without the announcement, a client may send its next request at that moment, and cannot know whether it was
//! processed (RFC 9112 section 9.6).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A request body that records whether it was read to its end.
pub struct TrackedBody {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

/// Whether the body of a request was read to its end.
pub struct BodyState(Arc<AtomicBool>);

/// Tracks the reading of a request's body.
pub fn track(request: Request<Incoming>) -> (Request<TrackedBody>, BodyState) {
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let state = BodyState(Arc::clone(&is_read));
    (request.map(|body| TrackedBody { body, is_read }), state)
}

impl BodyState {
    /// Sets `connection: close` on the response if the body was not read to its end.
    pub fn announce_close<B>(&self, response: &mut Response<B>) {
        if !self.0.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
