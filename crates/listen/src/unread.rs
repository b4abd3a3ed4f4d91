//! Tells a client that its connection ends where it was answered before its request was read.
//!
//! What is left of the body would be taken for the next request, so the connection is closed after such an answer. A
//! client that is not told may send the next one on it at that very moment, and cannot know whether it was heard
//! (RFC 9112 section 9.6).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A request's body that tells whether it was read to its end.
pub struct Tracked {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

/// Whether a request was read to its end, for the answer to it.
pub struct Reading(Arc<AtomicBool>);

/// Follows the reading of a request's body.
pub fn track(request: Request<Incoming>) -> (Request<Tracked>, Reading) {
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let reading = Reading(Arc::clone(&is_read));
    (request.map(|body| Tracked { body, is_read }), reading)
}

impl Reading {
    /// Says in the answer that the connection ends, if it has to.
    pub fn tell<B>(&self, response: &mut Response<B>) {
        if !self.0.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Body for Tracked {
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
