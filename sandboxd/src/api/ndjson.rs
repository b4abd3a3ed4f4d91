//! A command's stream as JSON lines.

use std::convert::Infallible;
use std::io::Write;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use output_text::write_json;
use sandbox_api::command::{PipelineStage, Record as Wire, StageRecord};
use sandbox_api::{CommandId, NDJSON, SnapshotId};

use crate::model::command::{Record, StageEnd, Stream, signal_name};
use crate::model::{Ended, Event, layout};
use crate::service::CommandStream;

/// Estimated size of a record without its text.
const LINE_OVERHEAD: usize = 64;

/// Whether the client accepts JSON lines.
pub(super) fn is_wanted(accept: Option<&HeaderValue>) -> bool {
    let accept = accept.map(HeaderValue::as_bytes).unwrap_or_default();
    accept.split(|byte| *byte == b',').any(|kind| {
        let name = kind.split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"application/x-ndjson")
    })
}

/// Response with the stream as its body.
pub(super) fn response(stream: CommandStream, command: CommandId) -> Response {
    let lines = stream.into_events().map(move |event| Ok::<_, Infallible>(encode(&event, &command)));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(NDJSON)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(lines)).into_response()
}

/// Formats a time, given in milliseconds since the epoch.
pub(super) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default().to_string()
}

/// Encodes one event as one or more lines.
fn encode(event: &Event, command: &CommandId) -> Bytes {
    match event {
        Event::Output(records) => {
            let bytes: usize = records.iter().map(|record| record.data.len() + LINE_OVERHEAD).sum();
            // Reserves an eighth more for escapes. Output with more of them grows the buffer once.
            let mut lines = Vec::with_capacity(bytes + bytes / 8);
            for record in records {
                write_output(&mut lines, record);
            }
            lines.into()
        }
        Event::Started(started) => line(&Wire::Start {
            command_id: command.clone(),
            started_at: time(started.at_ms),
            timeout_ms: started.timeout.as_millis() as u64,
        }),
        Event::Gap { dropped_bytes, next_seq } => {
            line(&Wire::Gap { dropped_bytes: *dropped_bytes, next_seq: *next_seq })
        }
        Event::Heartbeat => line(&Wire::Heartbeat),
        Event::Ended { ended, checkpoint } => line(&exit(ended, command, checkpoint.clone())),
    }
}

fn exit(ended: &Ended, command: &CommandId, checkpoint_id: Option<SnapshotId>) -> Wire {
    Wire::Exit {
        exit_code: ended.exit_code,
        signal: ended.signal.map(signal_name),
        reason: ended.reason,
        duration_ms: ended.duration.as_millis() as u64,
        stdout_bytes: ended.stdout_bytes,
        stderr_bytes: ended.stderr_bytes,
        dropped_bytes: ended.dropped_bytes,
        killed_by: ended.killed_by.map(|by| by.as_str().into()),
        output_path: ended.output_file.map(|_| layout::output_path(command)),
        output_complete: ended.output_file.map(|file| file.is_complete),
        limit_exceeded: ended.exceeded.map(Into::into),
        read_only_violation: ended.read_only_violation.clone().map(Into::into),
        denials: ended.denials,
        checkpoint_id,
    }
}

fn line(record: &Wire) -> Bytes {
    let mut line = serde_json::to_vec(record).expect("records have string keys and finite numbers");
    line.push(b'\n');
    line.into()
}

/// Writes an output record exactly as `sandbox_api::command::Output` would be serialized. It avoids that type's
/// copies, because all output of all commands passes through here.
fn write_output(lines: &mut Vec<u8>, record: &Record) {
    let stream = match record.stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Trace => "trace",
        Stream::Stage => return write_stage(lines, record),
    };
    let seq = record.seq;
    let head = write!(lines, r#"{{"stream":"{stream}","seq":{seq},"data":"#);
    head.expect("memory takes every write");
    match std::str::from_utf8(&record.data) {
        Ok(text) => write_json(lines, text),
        Err(_) => write_lossy(lines, &record.data),
    }
    lines.extend_from_slice(b"}\n");
}

fn write_stage(lines: &mut Vec<u8>, record: &Record) {
    if let Some(end) = &record.stage {
        let text = end.output_bytes.map(|_| String::from_utf8_lossy(&record.data).into_owned());
        let stage = pipeline_stage(end, text, record.data.len());
        lines.extend(line(&Wire::Stage(StageRecord { seq: record.seq, stage })));
    }
}

/// Converts the report of a stage. `stdout` is what was kept of its output, as text, and `kept_bytes` its size.
pub(super) fn pipeline_stage(end: &StageEnd, stdout: Option<String>, kept_bytes: usize) -> PipelineStage {
    PipelineStage {
        command: end.command.clone(),
        exit_code: end.exit_code,
        stdout,
        stdout_bytes: end.output_bytes,
        truncated: end.output_bytes.is_some_and(|bytes| bytes > kept_bytes as u64),
    }
}

fn write_lossy(lines: &mut Vec<u8>, data: &[u8]) {
    write_json(lines, &String::from_utf8_lossy(data));
    lines.extend_from_slice(br#","dataBase64":"#);
    write_json(lines, &BASE64_STANDARD.encode(data));
}

#[cfg(test)]
mod tests {
    use sandbox_api::command::Output;

    use super::*;

    fn decode(stream: Stream, data: &'static [u8]) -> Wire {
        let record = Record { seq: 7, stream, data: Bytes::from_static(data), stage: None };
        let command = "cmd_0123456789abcdef".parse().unwrap();
        let bytes = encode(&Event::Output(vec![record]), &command);
        assert_eq!(bytes.last(), Some(&b'\n'));
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn output_is_written_as_the_wire_type_reads_it() {
        let text = decode(Stream::Stdout, "a\"\n\u{1}é\\".as_bytes());
        assert_eq!(text, Wire::Stdout(Output { seq: 7, data: "a\"\n\u{1}é\\".into(), data_base64: None }));
        let bytes = decode(Stream::Stderr, b"a\xff");
        let base64 = Some(BASE64_STANDARD.encode(b"a\xff"));
        assert_eq!(bytes, Wire::Stderr(Output { seq: 7, data: "a\u{fffd}".into(), data_base64: base64 }));
    }

    #[test]
    fn json_lines_are_sent_only_if_accepted() {
        let wanted = |text: &'static str| is_wanted(Some(&HeaderValue::from_static(text)));
        assert!(wanted("application/x-ndjson"));
        assert!(wanted("application/json;q=0.5, Application/X-NDJSON; q=1"));
        assert!(!wanted("application/json"));
        assert!(!is_wanted(None));
    }
}
