//! Downloads of files through links.
//!
//! The content is never rendered: every header that a browser knows for that says so. A page cannot embed it either, so
//! nothing from a sandbox becomes part of an origin.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY,
};
use http::{Method, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::{Sleep, sleep};
use tracing::debug;

use super::body::{self, BodyError, PreviewBody};
use super::pages::PreviewError;
use super::upgrade::Held;
use crate::content::{self, Content};
use crate::model::download::{self, DownloadGrant};
use crate::model::preview::LinkEnd;
use crate::model::{Refusal, Resource, limits};
use crate::service::{self, DownloadPermit, FileStream, Service};

/// Other origins may not embed the response (Fetch standard, section 3.7).
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Headers of every download, beside those of the content itself.
const HEADERS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store, private"),
    (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    (REFERRER_POLICY, "no-referrer"),
    (RESOURCE_POLICY, "same-origin"),
];

/// Sends the file of a link. Wakes its sandbox, and keeps it in use until the response has ended.
pub(super) async fn answer(
    service: &Service,
    grant: DownloadGrant,
    method: &Method,
    request: &HeaderMap,
    held: &Held,
) -> Result<Response<PreviewBody>, PreviewError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(PreviewError::NotReadOnly);
    }
    // A daemon that shuts down wakes no sandbox.
    if held.stopping.is_cancelled() {
        return Err(PreviewError::NotReady);
    }
    let permit = service.downloads().begin(&grant.sandbox).map_err(|error| error_of(&error))?;
    let name = download::disposition(&download::file_name(&grant.path));
    let content = content::respond(service.files(), &grant.sandbox, grant.path, request).await;
    let Content { status, mut headers, bytes } = content.map_err(|error| error_of(&error))?;
    // `extend` would send some of them twice.
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    let body = bytes.map_or_else(body::empty, |bytes| {
        let until = Box::pin(sleep(limits::MAX_DOWNLOAD_TIME));
        StreamBody::new(Download { bytes, until, _permit: permit }).boxed_unsync()
    });
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn error_of(error: &service::Error) -> PreviewError {
    match error {
        service::Error::Refused(Refusal::NotFound(Resource::Sandbox)) => {
            PreviewError::Ended(LinkEnd::SandboxGone)
        }
        service::Error::Refused(Refusal::LimitReached { .. }) => PreviewError::TooManyDownloads,
        service::Error::Refused(Refusal::RangeEmpty { size_bytes }) => PreviewError::NoRange(*size_bytes),
        service::Error::Refused(Refusal::ConditionFailed { .. }) => PreviewError::Changed,
        service::Error::Refused(_) => PreviewError::NoFile,
        error => {
            debug!(error = error as &dyn std::error::Error, "could not open the file of a download link");
            PreviewError::NotReady
        }
    }
}

/// The bytes of a download. Ends early if the visitor takes too long.
struct Download {
    bytes: FileStream<Bytes>,
    until: Pin<Box<Sleep>>,
    _permit: DownloadPermit,
}

impl Stream for Download {
    type Item = Result<Frame<Bytes>, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(BodyError::TooSlow)));
        }
        let next = Pin::new(&mut self.bytes).poll_next(context);
        next.map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(BodyError::File)))
    }
}
