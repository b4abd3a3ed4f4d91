//! Request bodies of surfaces: their size, their time, and the memory for all of them together.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use memchr::memchr2;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum length of a body in bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of values of a body in JSON. In memory, a value is much longer than in JSON.
pub const MAX_VALUES: usize = 20_000;

/// Memory for all bodies that are not small, in KiB.
const MEMORY_KIB: usize = 64 * 1024;

/// Largest body that needs no share of the memory, in bytes, so that it never waits. A connection has one at a time.
const SMALL_BYTES: usize = 64 * 1024;

/// Time in which a body must arrive, and for which it waits for memory.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Memory for the bodies of all surfaces, in KiB. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bodies(Arc<Semaphore>);

/// A body's share of the memory. The last clone returns it, so a call keeps one as long as it keeps its arguments.
#[derive(Debug, Clone, Default)]
pub struct BodyShare(Option<Arc<OwnedSemaphorePermit>>);

/// Why a body was not read. The message is for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is too long.
    #[error("the body is larger than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    /// It has too many values.
    #[error("the body has more than {MAX_VALUES} values")]
    TooManyValues,
    /// The client ended it early.
    #[error("the body could not be read to the end")]
    Incomplete,
    /// It took too long.
    #[error("the body did not arrive within {TIMEOUT:?}")]
    Late,
    /// Others use all memory.
    #[error("no memory was free for the body within {TIMEOUT:?}, because of other large bodies")]
    NoMemory,
}

impl BodyError {
    /// Status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge | Self::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MEMORY_KIB)))
    }
}

impl Bodies {
    /// Reads a body in JSON to its end. Reserves memory for it when it turns out not to be small, so a body that never arrives
    /// reserves nothing.
    pub async fn read<B>(&self, headers: &HeaderMap, body: B) -> Result<(Bytes, BodyShare), BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let declared = declared_length(headers)?;
        let mut body = std::pin::pin!(Limited::new(body, MAX_BODY_BYTES));
        let mut bytes = BytesMut::new();
        let mut share = BodyShare::default();
        let mut deadline = Instant::now() + TIMEOUT;
        while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| BodyError::Late)? {
            // Any other frame is trailers, which are not used.
            let Ok(data) = frame.map_err(|error| broken(&*error))?.into_data() else { continue };
            if share.0.is_none() && bytes.len() + data.len() > SMALL_BYTES {
                let began = Instant::now();
                share = self.reserve(declared.unwrap_or(MAX_BODY_BYTES)).await?;
                // Time spent waiting for memory does not count against the client.
                deadline += began.elapsed();
            }
            bytes.extend_from_slice(&data);
        }
        if has_too_many_values(&bytes) {
            return Err(BodyError::TooManyValues);
        }
        Ok((bytes.freeze(), share))
    }

    /// Reserves all memory at once. Reserving it in steps could make bodies wait for each other forever.
    async fn reserve(&self, bytes: usize) -> Result<BodyShare, BodyError> {
        let kib = u32::try_from(bytes.div_ceil(1024)).map_err(|_| BodyError::TooLarge)?;
        match timeout(TIMEOUT, Arc::clone(&self.0).acquire_many_owned(kib)).await {
            Ok(Ok(permit)) => Ok(BodyShare(Some(Arc::new(permit)))),
            Ok(Err(_)) | Err(_) => Err(BodyError::NoMemory),
        }
    }
}

/// The declared length. A body that declares too much is rejected without reading it.
fn declared_length(headers: &HeaderMap) -> Result<Option<usize>, BodyError> {
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|declared: usize| declared > MAX_BODY_BYTES) {
        return Err(BodyError::TooLarge);
    }
    Ok(declared)
}

/// Whether JSON has more than [`MAX_VALUES`] values. Text that is not JSON has any number of them.
pub fn has_too_many_values(json: &[u8]) -> bool {
    let (mut rest, mut values) = (json, 0);
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b',' | b'[' | b'{')) {
        let is_string = rest[at] == b'"';
        rest = &rest[at + 1..];
        if is_string {
            rest = after_string(rest);
        } else {
            values += 1;
            if values > MAX_VALUES {
                return true;
            }
        }
    }
    false
}

/// What follows a string.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_end = rest[at] == b'"';
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

fn broken(error: &(dyn std::error::Error + Send + Sync + 'static)) -> BodyError {
    if error.is::<LengthLimitError>() { BodyError::TooLarge } else { BodyError::Incomplete }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const LARGE: usize = MAX_BODY_BYTES;

    fn declared(length: usize) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from(length))])
    }

    fn full(length: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b' '; length]))
    }

    /// A body whose first bytes arrive, and nothing else.
    fn stalled(length: usize) -> impl Body<Data = Bytes, Error = Infallible> {
        let first = Ok(Frame::data(Bytes::from(vec![b' '; length])));
        StreamBody::new(stream::iter([first]).chain(stream::pending()))
    }

    #[tokio::test]
    async fn large_bodies_share_the_memory_and_small_ones_need_none() {
        let bodies = Bodies::default();
        let mut shares = Vec::new();
        for _ in 0..MEMORY_KIB * 1024 / LARGE {
            let (bytes, share) = bodies.read(&declared(LARGE), full(LARGE)).await.unwrap();
            assert_eq!(bytes.len(), LARGE);
            shares.push(share);
        }
        let small = bodies.read(&declared(SMALL_BYTES), full(SMALL_BYTES)).await.unwrap();
        assert_eq!(small.0.len(), SMALL_BYTES);
        let waiting = tokio::spawn({
            let bodies = bodies.clone();
            async move { bodies.read(&declared(LARGE), full(LARGE)).await.map(|(bytes, _)| bytes.len()) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        // A clone keeps the memory.
        let kept = shares[0].clone();
        drop(shares.swap_remove(0));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(kept);
        assert_eq!(waiting.await.unwrap(), Ok(LARGE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_a_limited_time_for_memory() {
        let bodies = Bodies(Arc::new(Semaphore::new(0)));
        assert_eq!(bodies.read(&declared(LARGE), full(LARGE)).await.unwrap_err(), BodyError::NoMemory);
        assert!(bodies.read(&HeaderMap::new(), full(SMALL_BYTES)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_arrive() {
        let bodies = Bodies::default();
        let late = bodies.read(&declared(LARGE), stalled(SMALL_BYTES + 1)).await;
        assert_eq!(late.unwrap_err(), BodyError::Late);
        assert_eq!(bodies.0.available_permits(), MEMORY_KIB);
    }

    #[tokio::test]
    async fn a_body_with_too_many_values_is_rejected() {
        let read = async |json: String| {
            Bodies::default().read(&HeaderMap::new(), Full::new(Bytes::from(json))).await.map(|_| ())
        };
        for value in ["0,", "[],", "{},", r#"{"a":1},"#] {
            let many = format!("[{}0]", value.repeat(MAX_VALUES));
            assert_eq!(read(many).await, Err(BodyError::TooManyValues), "{value}");
        }
        let text = serde_json::json!({ "content": r#"{"a": [1, "\"], [,"#.repeat(MAX_VALUES) }).to_string();
        assert_eq!(read(text).await, Ok(()));
        for broken in [r#"{"a"#, r#"{"a\"#, r#"""#] {
            assert_eq!(read(broken.into()).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_rejected() {
        let bodies = Bodies::default();
        let early = bodies.read(&declared(LARGE + 1), stalled(1)).await;
        assert_eq!(early.unwrap_err(), BodyError::TooLarge);
        let undeclared = bodies.read(&HeaderMap::new(), full(LARGE + 1)).await;
        assert_eq!(undeclared.unwrap_err(), BodyError::TooLarge);
        assert_eq!(bodies.0.available_permits(), MEMORY_KIB);
    }
}
