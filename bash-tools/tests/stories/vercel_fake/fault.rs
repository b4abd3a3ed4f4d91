//! Faults in responses.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde_json::Value;

use super::{Refusal, Shared};

/// A fault.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The request is not carried out and gets an error.
    Refuse(u16, &'static str),
    /// The request is not carried out, and may be retried after this number of seconds.
    TooMany(u64),
    /// The request is carried out, and the response is lost.
    LoseAnswer,
    /// The request is carried out, and the response reports an error.
    FailAfterwards,
    /// The request is not carried out and gets no response.
    Hang,
    /// The response ends within the line after this number of lines, as if the connection broke.
    BreakAfter(usize),
    /// The response ends after this number of lines, as if it were complete.
    EndAfter(usize),
    /// A redirect to `/elsewhere`.
    Redirect,
    /// A field is missing: the JSON pointer of its parent, and its name.
    Without(&'static str, &'static str),
    /// The content type has an additional parameter.
    Charset,
    /// One endless line.
    EndlessLine,
}

pub(super) async fn make(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let request_line = (request.method().to_string(), request.uri().path().to_owned());
    let Some(fault) = shared.next_fault(&request_line.0, &request_line.1) else {
        return next.run(request).await;
    };
    match fault {
        Fault::Refuse(status, code) => refuse(status, code),
        Fault::TooMany(seconds) => {
            let mut response = refuse(429, "too_many_requests");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Fault::Hang => std::future::pending().await,
        Fault::Redirect => {
            let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
            response.headers_mut().insert("location", HeaderValue::from_static("/elsewhere"));
            response
        }
        Fault::FailAfterwards => {
            next.run(request).await;
            refuse(502, "bad_gateway")
        }
        Fault::LoseAnswer => broken(next.run(request).await, 0, true),
        Fault::BreakAfter(lines) => broken(next.run(request).await, lines, true),
        Fault::EndAfter(lines) => broken(next.run(request).await, lines, false),
        Fault::Without(of, field) => without(next.run(request).await, of, field).await,
        Fault::Charset => {
            let mut response = next.run(request).await;
            let value = HeaderValue::from_static("application/x-ndjson; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, value);
            response
        }
        Fault::EndlessLine => endless(next.run(request).await),
    }
}

impl Shared {
    fn next_fault(&self, method: &str, path: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let is_of = |wanted: &str| {
            wanted.split_once(' ').is_some_and(|(verb, end)| verb == method && path.ends_with(end))
        };
        let at = faults.iter().position(|(wanted, _)| is_of(wanted))?;
        Some(faults.remove(at).1)
    }
}

fn refuse(status: u16, code: &'static str) -> Response {
    Refusal(StatusCode::from_u16(status).unwrap(), code, format!("fault {status} {code}")).into_response()
}

/// This number of lines of the response. A broken response ends within the next line.
fn broken(response: Response, lines: usize, is_error: bool) -> Response {
    let (mut head, body) = response.into_parts();
    head.headers.remove("content-length");
    let mut left = Some(lines);
    let parts = body.into_data_stream().flat_map(move |part| {
        let Some(lines) = left else { return futures::stream::iter(Vec::new()) };
        let part = part.unwrap();
        let mut ends = part.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let cut = if lines == 0 { Some(0) } else { ends.nth(lines - 1) };
        let Some(cut) = cut.filter(|cut| !is_error || *cut < part.len()) else {
            left = Some(lines - part.iter().filter(|byte| **byte == b'\n').count());
            return futures::stream::iter(vec![Ok(part)]);
        };
        left = None;
        let more = if is_error { 3 } else { 0 };
        let last = Ok(part.slice(..(cut + more).min(part.len())));
        let end = if is_error { Err(std::io::Error::other("broken")) } else { Ok(Bytes::new()) };
        futures::stream::iter(vec![last, end])
    });
    // The stream does not wait after the end.
    let parts = parts.scan(false, |is_over, part| {
        let continues = !*is_over;
        *is_over = !matches!(&part, Ok(bytes) if !bytes.is_empty());
        std::future::ready(continues.then_some(part))
    });
    let parts = parts.take_while(|part| std::future::ready(!matches!(part, Ok(bytes) if bytes.is_empty())));
    Response::from_parts(head, Body::from_stream(parts))
}

async fn without(response: Response, of: &str, field: &str) -> Response {
    let (mut head, body) = response.into_parts();
    head.headers.remove("content-length");
    let is_stream = head.headers[CONTENT_TYPE] == "application/x-ndjson";
    let take = |json: &[u8]| {
        let mut json: Value = serde_json::from_slice(json).unwrap();
        json.pointer_mut(of).unwrap().as_object_mut().unwrap().remove(field).unwrap();
        let end = if is_stream { "\n" } else { "" };
        Bytes::from(format!("{json}{end}"))
    };
    if is_stream {
        let first = body.into_data_stream().next().await.unwrap().unwrap();
        return Response::from_parts(head, Body::from(take(&first)));
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Response::from_parts(head, Body::from(take(&body)))
}

/// The first line, and then an endless one.
fn endless(response: Response) -> Response {
    let (head, body) = response.into_parts();
    let line = futures::stream::repeat(Bytes::from_static(&[b'x'; 65536])).map(Ok::<_, axum::Error>);
    Response::from_parts(head, Body::from_stream(body.into_data_stream().take(1).chain(line)))
}
