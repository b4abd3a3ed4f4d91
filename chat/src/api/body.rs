//! Reads request bodies within limits.
//!
//! Parsed JSON takes many times its length: `[]` has two bytes, and takes some thirty in memory. So the values are
//! counted before they are parsed, and the number of long bodies is limited.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Error, Result};

/// Maximum length of a request body that is not a file, in bytes. A page sends a whole temporary chat with its tools'
/// outputs.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of values of all types: a chat of thousands of messages.
pub const MAX_VALUES: usize = 200_000;

/// Length up to which a body needs no permit, in bytes.
pub(super) const SHORT_BYTES: usize = 256 * 1024;

/// Maximum number of longer bodies at once.
const MAX_LONG_BODIES: usize = 4;

/// Time limit for a body, including its wait for others: [`MAX_BODY_BYTES`] over a slow connection.
const WHOLE: Duration = Duration::from_secs(120);

/// Permits for long bodies. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Bodies(Arc<Semaphore>);

/// Permit for a long body. It is held as long as the parsed value.
pub(super) type BodyPermit = Option<OwnedSemaphorePermit>;

impl Default for Bodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LONG_BODIES)))
    }
}

impl Bodies {
    /// Reads and parses a body.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(T, BodyPermit)> {
        let invalid = |problem: String| Error::Invalid { field: "body", problem };
        must_be_json(headers)?;
        let (body, room) = timeout(WHOLE, self.collect(body)).await.map_err(|_| cut())??;
        if values(&body) > MAX_VALUES {
            return Err(Error::TooLarge { what: "a request", limit: MAX_VALUES, unit: "values" });
        }
        let request = serde_json::from_slice(&body)
            .map_err(|error| invalid(format!("is not what useChat sends: {error}")))?;
        Ok((request, room))
    }

    async fn collect(&self, body: Body) -> Result<(Bytes, BodyPermit)> {
        let mut parts = body.into_data_stream();
        let mut body = BytesMut::new();
        let mut room = None;
        while let Some(part) = parts.next().await {
            let part = part.map_err(|_| cut())?;
            if body.len() + part.len() > MAX_BODY_BYTES {
                return Err(Error::TooLarge { what: "a request", limit: MAX_BODY_BYTES, unit: "bytes" });
            }
            if body.len() + part.len() > SHORT_BYTES && room.is_none() {
                room = Arc::clone(&self.0).acquire_owned().await.ok();
            }
            body.extend_from_slice(&part);
        }
        Ok((body.freeze(), room))
    }
}

/// Requires JSON. A page of another origin may make a browser send text without asking, but not JSON (the Fetch
/// standard's simple requests).
pub(super) fn must_be_json(headers: &HeaderMap) -> Result<()> {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (kind, more) = (kinds.next().and_then(|kind| kind.to_str().ok()), kinds.next());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    let is_json = essence.trim().eq_ignore_ascii_case("application/json") && more.is_none();
    if is_json { Ok(()) } else { Err(Error::NotJson) }
}

fn cut() -> Error {
    Error::Invalid { field: "body", problem: "ended before it was complete, or took too long".into() }
}

/// Counts at least as many values as a JSON text has. Each value but the first follows one of these characters.
fn values(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderValue;
    use serde::de::IgnoredAny;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn headers() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_holds_its_permit_for_a_limited_time() {
        let (bodies, began) = (Bodies::default(), Instant::now());
        let slow = || {
            let first =
                futures::stream::once(async { Ok::<_, Infallible>(Bytes::from(vec![b' '; SHORT_BYTES])) });
            let byte = futures::stream::repeat(()).then(|()| async {
                sleep(Duration::from_secs(10)).await;
                Ok(Bytes::from_static(b" "))
            });
            Body::from_stream(first.chain(byte))
        };
        let slow: Vec<_> = (0..MAX_LONG_BODIES)
            .map(|_| {
                let (bodies, body) = (bodies.clone(), slow());
                tokio::spawn(async move { bodies.read::<IgnoredAny>(&headers(), body).await.is_err() })
            })
            .collect();
        for slow in slow {
            assert!(slow.await.unwrap());
        }
        assert!(began.elapsed() <= WHOLE + Duration::from_secs(1));
        let long = Body::from(format!("\"{}\"", "x".repeat(SHORT_BYTES)));
        assert!(bodies.read::<IgnoredAny>(&headers(), long).await.unwrap().1.is_some());
    }

    #[test]
    fn values_are_counted_but_not_the_content_of_strings() {
        assert_eq!(values(b"1"), 1);
        assert_eq!(values(br#"{"a": [1, 2, {}], "b": "x,[{\",[\\"}"#), 7);
        assert_eq!(values("[],".repeat(1000).as_bytes()), 2001);
    }
}
