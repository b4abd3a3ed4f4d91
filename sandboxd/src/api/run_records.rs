//! A run's stream as JSON lines.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use sandbox_api::command::Output;
use sandbox_api::context::{Display, RunError, RunRecord};
use sandbox_api::tool::ToolCall;
use sandbox_api::{CommandId, NDJSON};

use super::ndjson::time;
use crate::model::command::Stream;
use crate::model::context::{RecordKind, RunEnded, RunEvent};
use crate::model::{limits, tool};
use crate::service::RunStream;

/// What the records of a run have in common.
struct Encoder {
    run_id: CommandId,
    timeout: Duration,
    /// Sequence number of the last output record.
    seq: u64,
}

/// Response with the stream as its body.
pub(super) fn response(stream: RunStream, run_id: CommandId, timeout: Duration) -> Response {
    let mut encoder = Encoder { run_id, timeout, seq: 0 };
    let lines = stream.into_events().map(move |event| Ok::<_, Infallible>(line(&encoder.record(event))));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(lines)).into_response()
}

fn line(record: &RunRecord) -> Bytes {
    let mut line = serde_json::to_vec(record).expect("records have string keys and finite numbers");
    line.push(b'\n');
    line.into()
}

impl Encoder {
    fn record(&mut self, event: RunEvent) -> RunRecord {
        match event {
            RunEvent::Started { at_ms, run, .. } => RunRecord::Start {
                run_id: self.run_id.clone(),
                run,
                started_at: time(at_ms),
                timeout_ms: self.timeout.as_millis() as u64,
            },
            RunEvent::Output { stream, data } => {
                self.seq += 1;
                let output = output(self.seq, &data);
                if stream == Stream::Stderr { RunRecord::Stderr(output) } else { RunRecord::Stdout(output) }
            }
            RunEvent::Record { kind: RecordKind::Result, values } => RunRecord::Result(display(&values)),
            RunEvent::Record { kind: RecordKind::Display, values } => RunRecord::Display(display(&values)),
            RunEvent::Record { kind: RecordKind::Error, values } => RunRecord::Error(error(&values)),
            RunEvent::ToolCall(call) => RunRecord::ToolCall(tool_call(call)),
            RunEvent::Heartbeat => RunRecord::Heartbeat,
            RunEvent::Ended(ended) => end(&ended),
        }
    }
}

fn output(seq: u64, data: &Bytes) -> Output {
    let data_base64 = str::from_utf8(data).is_err().then(|| BASE64_STANDARD.encode(data));
    Output { seq, data: lossy(data), data_base64 }
}

fn lossy(data: &Bytes) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn display(values: &HashMap<String, Bytes>) -> Display {
    let text = |name: &str| values.get(name).map(lossy);
    let json = values.get("json").filter(|json| json.len() <= limits::MAX_DISPLAY_JSON_BYTES);
    Display {
        text: text("text"),
        html: text("html"),
        markdown: text("markdown"),
        json: json.and_then(|json| serde_json::from_slice(json).ok()),
        svg: text("svg"),
        png: values.get("png").map(|png| BASE64_STANDARD.encode(png)),
    }
}

fn error(values: &HashMap<String, Bytes>) -> RunError {
    let text = |name: &str| values.get(name).map(lossy).unwrap_or_default();
    RunError { name: text("name"), value: text("value"), traceback: text("traceback") }
}

fn tool_call(call: tool::ToolCall) -> ToolCall {
    let tool::ToolCall { call, name, arguments, timeout } = call;
    ToolCall { call, name, arguments, timeout_ms: timeout.as_millis() as u64 }
}

fn end(ended: &RunEnded) -> RunRecord {
    RunRecord::End {
        status: ended.status,
        duration_ms: ended.duration.as_millis() as u64,
        exit_code: ended.exit_code,
        dropped_bytes: ended.dropped_bytes,
        restarted: ended.restarted,
        state_lost: ended.state_lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(json: &'static str) -> HashMap<String, Bytes> {
        let pairs = [("text", "t"), ("json", json), ("png", "\u{1}"), ("other", "x")];
        pairs.map(|(name, value)| (name.to_owned(), Bytes::from_static(value.as_bytes()))).into()
    }

    #[test]
    fn a_display_has_only_formats_that_are_valid() {
        let shown = display(&values(r#"{"a":[1]}"#));
        assert_eq!(shown.json, Some(serde_json::json!({ "a": [1] })));
        assert_eq!(shown.png.as_deref(), Some("AQ=="));
        assert_eq!(shown.html, None);
        assert_eq!(display(&values("{")).json, None);
    }

    #[test]
    fn json_beyond_the_limit_is_skipped() {
        let long: &'static str = format!("\"{}\"", "x".repeat(limits::MAX_DISPLAY_JSON_BYTES)).leak();
        assert_eq!(display(&values(long)).json, None);
    }
}
