//! Downloads of files through links.
//!
//! The content is never rendered: every header that a browser knows for that says so. A page cannot embed it either, so
//! nothing from a sandbox becomes part of an origin.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY,
};
use http::{Method, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use listen::slot::ConnectionSlot;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

use super::body::{self, BodyError, PreviewBody};
use super::pages::PreviewError;
use super::upgrade::Held;
use crate::content::{self, Content};
use crate::model::download::{self, DownloadGrant};
use crate::model::preview::LinkEnd;
use crate::model::{FileRefusal, Refusal, Resource, limits};
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
    visitor: IpAddr,
    method: &Method,
    request: &HeaderMap,
    slot: Option<Arc<ConnectionSlot>>,
    held: &Held,
) -> Result<Response<PreviewBody>, PreviewError> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(PreviewError::NotReadOnly);
    }
    // A daemon that shuts down wakes no sandbox.
    if held.stopping.is_cancelled() {
        return Err(PreviewError::NotReady);
    }
    let permit = service.downloads().begin(&grant, visitor).map_err(|error| error_of(&error))?;
    let name = download::disposition(&download::file_name(&grant.path));
    let content = content::respond(service.files(), &permit.sandbox, grant.path, request).await;
    let Content { status, mut headers, bytes } = content.map_err(|error| error_of(&error))?;
    // `extend` would send some of them twice.
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    let body = bytes.map_or_else(body::empty, |bytes| {
        let limit = slot.map(|slot| close_after(slot, limits::MAX_DOWNLOAD_TIME));
        StreamBody::new(Download { bytes, _limit: limit, _permit: permit }).boxed_unsync()
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
        service::Error::Refused(Refusal::File(FileRefusal::RangeEmpty { size_bytes })) => {
            PreviewError::NoRange(*size_bytes)
        }
        service::Error::Refused(Refusal::File(FileRefusal::ConditionFailed { .. })) => PreviewError::Changed,
        service::Error::Refused(_) => PreviewError::NoFile,
        service::Error::Audit(_) => PreviewError::Unrecorded,
        error => {
            debug!(error = error as &dyn std::error::Error, "could not open the file of a download link");
            PreviewError::NotReady
        }
    }
}

/// Closes the connection after this time, unless the result is dropped earlier. The body cannot do that itself, because
/// it is not polled while its visitor does not read.
fn close_after(slot: Arc<ConnectionSlot>, time: Duration) -> DropGuard {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    tokio::spawn(async move {
        tokio::select! {
            () = sleep(time) => slot.close(),
            () = ended.cancelled() => {}
        }
    });
    guard
}

/// The bytes of a download.
struct Download {
    bytes: FileStream<Bytes>,
    _limit: Option<DropGuard>,
    _permit: DownloadPermit,
}

impl Stream for Download {
    type Item = Result<Frame<Bytes>, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.bytes).poll_next(context);
        next.map(|next| next.map(|bytes| bytes.map(Frame::data).map_err(BodyError::File)))
    }
}

#[cfg(test)]
mod tests {
    use listen::ConnectionLimit;
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_download_that_takes_too_long_is_closed() {
        let limit = ConnectionLimit::new(2);
        let (slow, done) = (limit.register(), limit.register());
        let _body = close_after(Arc::clone(&slow), limits::MAX_DOWNLOAD_TIME);
        drop(close_after(Arc::clone(&done), limits::MAX_DOWNLOAD_TIME));
        advance(limits::MAX_DOWNLOAD_TIME / 2).await;
        let second = Duration::from_secs(1);
        assert!(timeout(second, slow.evicted()).await.is_err());
        timeout(limits::MAX_DOWNLOAD_TIME, slow.evicted()).await.unwrap();
        assert!(timeout(second, done.evicted()).await.is_err(), "its body was sent");
    }
}
