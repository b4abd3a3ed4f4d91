//! The records that an interpreter sends on its control channel.
//!
//! A record is a line `<run> <kind> <count>`, and for each value a line `<name> <bytes>` and the bytes. User code can write
//! to the channel too, so nothing of it is believed beyond the run that it names, and everything has a bound. Anything
//! else ends the interpreter.

use bytes::{Bytes, BytesMut};

use agent_protocol::MAX_RUN_RECORD_BYTES;
use agent_protocol::v1::{RecordKind, RecordValue};

use crate::limits::{MAX_RECORD_LINE_BYTES, MAX_RECORD_VALUES};

/// Names of values. What a client gets has a field for each.
const NAMES: [&str; 9] = ["text", "html", "markdown", "json", "svg", "png", "name", "value", "traceback"];

/// Name of the only value of the last record of a run of bash.
const EXIT_CODE: &str = "exitCode";

/// What a record says.
#[derive(Debug, PartialEq)]
pub(super) enum Content {
    Value {
        kind: RecordKind,
        values: Vec<RecordValue>,
    },
    /// The code calls a tool, or searches the tools.
    Request(Request),
    /// The last record of a run.
    Done {
        exit_code: Option<i32>,
    },
}

/// What the code asks for, and waits for.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// Chosen by the interpreter. The answer names it.
    pub(super) id: u64,
    pub(super) asked: Asked,
}

/// See [`Request`].
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    Call { name: String, arguments: Bytes },
    Search { query: String, limit: usize },
}

/// A record of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Frame {
    /// The run that it names.
    pub(super) run: u64,
    pub(super) content: Content,
}

/// What was received is not a record.
#[derive(Debug, PartialEq)]
pub(super) struct Garbage;

/// Takes the first record from what was received. Returns `None` if it is not complete.
pub(super) fn take(received: &mut BytesMut) -> Result<Option<Frame>, Garbage> {
    let Some(length) = length_of(received)? else { return Ok(None) };
    let whole = received.split_to(length).freeze();
    // Complete, as its length was just found.
    let (mut at, head) = line(&whole, 0)?.ok_or(Garbage)?;
    let (run, kind, count) = head_of(head)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let (start, value) = line(&whole, at)?.ok_or(Garbage)?;
        let (name, bytes) = value_of(value)?;
        at = start + bytes;
        values.push((name.to_owned(), whole.slice(start..at)));
    }
    Ok(Some(Frame { run, content: content_of(kind, values)? }))
}

/// Length of the first record, or `None` if its lines are not complete or bytes of its values are missing.
fn length_of(received: &[u8]) -> Result<Option<usize>, Garbage> {
    let Some((mut at, head)) = line(received, 0)? else { return Ok(None) };
    let (_, _, count) = head_of(head)?;
    let mut total = 0;
    for _ in 0..count {
        let Some((start, value)) = line(received, at)? else { return Ok(None) };
        let (_, bytes) = value_of(value)?;
        if bytes > MAX_RUN_RECORD_BYTES - total {
            return Err(Garbage);
        }
        total += bytes;
        at = start + bytes;
    }
    Ok((at <= received.len()).then_some(at))
}

/// The line at a position, and where the next begins.
fn line(received: &[u8], at: usize) -> Result<Option<(usize, &str)>, Garbage> {
    let rest = received.get(at..).unwrap_or_default();
    let within = &rest[..rest.len().min(MAX_RECORD_LINE_BYTES)];
    match memchr::memchr(b'\n', within) {
        Some(end) => Ok(Some((at + end + 1, str::from_utf8(&within[..end]).map_err(|_| Garbage)?))),
        None if within.len() < MAX_RECORD_LINE_BYTES => Ok(None),
        None => Err(Garbage),
    }
}

fn head_of(line: &str) -> Result<(u64, &str, usize), Garbage> {
    let mut words = line.split(' ');
    let run = words.next().and_then(|word| word.parse().ok()).ok_or(Garbage)?;
    let kind = words.next().ok_or(Garbage)?;
    let count: usize = words.next().and_then(|word| word.parse().ok()).ok_or(Garbage)?;
    if words.next().is_some() || count > MAX_RECORD_VALUES { Err(Garbage) } else { Ok((run, kind, count)) }
}

fn value_of(line: &str) -> Result<(&str, usize), Garbage> {
    let (name, bytes) = line.split_once(' ').ok_or(Garbage)?;
    Ok((name, bytes.parse().map_err(|_| Garbage)?))
}

fn content_of(kind: &str, values: Vec<(String, Bytes)>) -> Result<Content, Garbage> {
    let kind = match kind {
        "result" => RecordKind::Result,
        "display" => RecordKind::Display,
        "error" => RecordKind::Error,
        "done" => return done_of(&values),
        "call" | "search" => return request_of(kind, &values),
        _ => return Err(Garbage),
    };
    let mut known: Vec<RecordValue> = Vec::new();
    for (name, data) in values {
        if NAMES.contains(&name.as_str()) && known.iter().all(|other| other.name != name) {
            known.push(RecordValue { name, data });
        }
    }
    Ok(Content::Value { kind, values: known })
}

fn done_of(values: &[(String, Bytes)]) -> Result<Content, Garbage> {
    let exit_code = match values {
        [] => None,
        [(name, code)] if name == EXIT_CODE => {
            Some(str::from_utf8(code).ok().and_then(|code| code.parse().ok()).ok_or(Garbage)?)
        }
        _ => return Err(Garbage),
    };
    Ok(Content::Done { exit_code })
}

/// The values of a request, in this order: `id`, and `tool` with `arguments`, or `query` with `limit`.
fn request_of(kind: &str, values: &[(String, Bytes)]) -> Result<Content, Garbage> {
    let text = |at: usize, name: &str| match values.get(at) {
        Some((found, value)) if found == name => str::from_utf8(value).map_err(|_| Garbage),
        _ => Err(Garbage),
    };
    let id = text(0, "id")?.parse().map_err(|_| Garbage)?;
    let asked = match kind {
        "call" => {
            let name = text(1, "tool")?.to_owned();
            text(2, "arguments")?;
            Asked::Call { name, arguments: values[2].1.clone() }
        }
        _ => {
            let limit = text(2, "limit")?.parse().map_err(|_| Garbage)?;
            Asked::Search { query: text(1, "query")?.to_owned(), limit }
        }
    };
    Ok(Content::Request(Request { id, asked }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(text: &[u8]) -> Result<Vec<Frame>, Garbage> {
        let mut received = BytesMut::from(text);
        let mut frames = Vec::new();
        while let Some(frame) = take(&mut received)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    fn value(name: &str, data: &'static [u8]) -> RecordValue {
        RecordValue { name: name.into(), data: Bytes::from_static(data) }
    }

    #[test]
    fn records_are_read_in_order() {
        let frames =
            take_all(b"7 result 2\ntext 3\n1\n2png 2\n\0\n7 done 0\n8 done 1\nexitCode 1\n3").unwrap();
        let values = vec![value("text", b"1\n2"), value("png", b"\0\n")];
        let contents = [
            (7, Content::Value { kind: RecordKind::Result, values }),
            (7, Content::Done { exit_code: None }),
            (8, Content::Done { exit_code: Some(3) }),
        ];
        assert_eq!(frames, contents.map(|(run, content)| Frame { run, content }));
    }

    #[test]
    fn an_incomplete_record_stays() {
        let whole = b"7 result 1\ntext 3\nabc";
        for end in 0..whole.len() {
            let mut received = BytesMut::from(&whole[..end]);
            assert_eq!(take(&mut received), Ok(None), "{end}");
            assert_eq!(received.len(), end);
        }
    }

    #[test]
    fn anything_else_is_rejected() {
        let long_line = [b'1'; MAX_RECORD_LINE_BYTES];
        let too_large = format!("7 result 1\ntext {}\n", MAX_RUN_RECORD_BYTES + 1);
        let cases: [&[u8]; 8] = [
            b"\n",
            b"x result 0\n",
            b"7 other 0\n",
            b"7 result 17\n",
            b"7 result 1\ntext -1\n",
            b"7 done 1\nexitCode 1\nx",
            &long_line,
            too_large.as_bytes(),
        ];
        for case in cases {
            assert_eq!(take_all(case), Err(Garbage), "{}", String::from_utf8_lossy(case));
        }
    }

    #[test]
    fn requests_are_read() {
        let frames =
            take_all(b"7 call 3\nid 1\n5tool 3\naddarguments 2\n{}7 search 3\nid 1\n6query 1\nxlimit 2\n10");
        let call = Asked::Call { name: "add".into(), arguments: Bytes::from_static(b"{}") };
        let search = Asked::Search { query: "x".into(), limit: 10 };
        let requests = [(5, call), (6, search)];
        let expected = requests.map(|(id, asked)| Content::Request(Request { id, asked }));
        assert_eq!(frames.unwrap().into_iter().map(|frame| frame.content).collect::<Vec<_>>(), expected);
        for wrong in
            [&b"7 call 2\nid 1\n5tool 1\na"[..], b"7 call 3\nid 1\n5arguments 1\natool 1\na", b"7 search 0\n"]
        {
            assert_eq!(take_all(wrong), Err(Garbage));
        }
    }

    #[test]
    fn unknown_and_repeated_values_are_skipped() {
        let frames = take_all(b"7 display 3\nother 1\nxtext 1\natext 1\nb").unwrap();
        let values = vec![value("text", b"a")];
        assert_eq!(frames[0].content, Content::Value { kind: RecordKind::Display, values });
    }
}
