//! Denials in their wire form, also as JSON lines: `GET …/network/denials?follow=true`.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use sandbox_api::NDJSON;
use sandbox_api::network::{Denial as Wire, DenialRecord};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::model::limits;
use crate::service::{Denial, DenialEvent, DenialStream};

/// Converts a denial to its wire form.
pub(super) fn to_wire(denial: Denial) -> Wire {
    let Denial { id, host, port, reason, count, last_at_ms, allowable } = denial;
    Wire { id: Some(id), host, port, count, last_at: time(last_at_ms), reason, allowable }
}

/// Converts a time, given in milliseconds since the epoch.
pub(super) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Response with the stream as its body. It ends when `stopping` is cancelled.
pub(super) fn follow(denials: DenialStream, stopping: CancellationToken) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(lines(denials, stopping))).into_response()
}

fn lines(
    denials: DenialStream,
    stopping: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures::stream::unfold(Some((denials, stopping)), |stream| async move {
        let (mut denials, stopping) = stream?;
        let next = stopping.run_until_cancelled(timeout(limits::HEARTBEAT, denials.next())).await;
        let record = match next {
            None => DenialRecord::Lost,
            Some(Err(_)) => DenialRecord::Heartbeat,
            Some(Ok(None)) => DenialRecord::Gone,
            Some(Ok(Some(event))) => record_of(event),
        };
        let is_last = matches!(record, DenialRecord::Gone | DenialRecord::Lost);
        Some((Ok(encode(&record)), Some((denials, stopping)).filter(|_| !is_last)))
    })
}

fn record_of(event: DenialEvent) -> DenialRecord {
    match event {
        DenialEvent::Denied(denied) => DenialRecord::Denied(to_wire(denied)),
        DenialEvent::Ready { at_ms } => DenialRecord::Ready { at: time(at_ms) },
        DenialEvent::Dropped { count } => DenialRecord::Dropped { count },
    }
}

fn encode(record: &DenialRecord) -> Bytes {
    let mut line = serde_json::to_vec(record).expect("records have string keys and finite numbers");
    line.push(b'\n');
    line.into()
}
