//! The output of a command, as entries.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use sandbox_api::command::{Output, Record};
use sandbox_client::{Error as ClientError, Records};
use serde_json::{Value, json};

/// Maximum size of the entries of a response: the newest are kept.
const MAX_BYTES: usize = 128 * 1024;

/// What an entry costs besides its data.
const ENTRY_BYTES: usize = 48;

/// A part of a command's output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    kind: &'static str,
    data: String,
}

impl From<Entry> for Value {
    fn from(entry: Entry) -> Self {
        json!({ "type": entry.kind, "data": entry.data })
    }
}

/// The newest part of a command's output.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) output: VecDeque<Entry>,
    /// Whether older entries are missing.
    pub(crate) truncated: bool,
    /// Number of the last record.
    pub(crate) next_offset: u64,
    /// File of the sandbox with the whole output, if there is one.
    pub(crate) log_path: Option<String>,
    bytes: usize,
    max_entries: Option<usize>,
    /// Starts of characters whose rest may be in the next record of standard output, and of standard error.
    pending: [Vec<u8>; 2],
}

impl Entries {
    /// Reads the records after number `offset`.
    pub(crate) async fn read(
        mut records: Records,
        offset: u64,
        max_entries: Option<usize>,
    ) -> Result<Self, ClientError> {
        let mut entries = Self { next_offset: offset, max_entries, ..Self::default() };
        while let Some(record) = records.next().await {
            entries.add(record?);
        }
        for kind in [0, 1] {
            entries.push(kind, &[], true);
        }
        Ok(entries)
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Stdout(output) => self.add_output(0, &output),
            Record::Stderr(output) => self.add_output(1, &output),
            Record::Gap { next_seq, .. } => {
                self.truncated = true;
                self.next_offset = next_seq.saturating_sub(1);
            }
            Record::Trace(output) => self.next_offset = output.seq,
            Record::Stage(record) => self.next_offset = record.seq,
            Record::Exit { output_path, .. } => self.log_path = output_path,
            Record::Start { .. } | Record::Heartbeat => {}
        }
    }

    fn add_output(&mut self, kind: usize, output: &Output) {
        self.next_offset = output.seq;
        match output.data_base64.as_deref().map(|base64| BASE64_STANDARD.decode(base64)) {
            Some(Ok(bytes)) => self.push(kind, &bytes, false),
            _ => self.push(kind, output.data.as_bytes(), false),
        }
    }

    fn push(&mut self, kind: usize, bytes: &[u8], is_last: bool) {
        let mut whole = std::mem::take(&mut self.pending[kind]);
        whole.extend_from_slice(bytes);
        if !is_last {
            let cut = whole.len() - incomplete(&whole);
            self.pending[kind] = whole.split_off(cut);
        }
        if whole.is_empty() {
            return;
        }
        let data = String::from_utf8_lossy(&whole).into_owned();
        self.bytes += data.len() + ENTRY_BYTES;
        self.output.push_back(Entry { kind: ["stdout", "stderr"][kind], data });
        while self.is_too_much() {
            self.drop_oldest();
        }
    }

    fn is_too_much(&self) -> bool {
        let is_too_long = self.bytes > MAX_BYTES && self.output.len() > 1;
        is_too_long || self.max_entries.is_some_and(|max| self.output.len() > max)
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.output.pop_front() {
            self.bytes -= entry.data.len() + ENTRY_BYTES;
            self.truncated = true;
        }
    }
}

/// Number of bytes at the end that are the start of a character.
fn incomplete(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let mut starts = (0..tail.len()).filter(|at| tail[*at] & 0xc0 != 0x80);
    let Some(last) = starts.next_back() else { return 0 };
    match std::str::from_utf8(&tail[last..]) {
        Err(error) if error.error_len().is_none() => tail.len() - last,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(seq: u64, bytes: &[u8]) -> Record {
        let data = String::from_utf8_lossy(bytes).into_owned();
        let data_base64 = std::str::from_utf8(bytes).is_err().then(|| BASE64_STANDARD.encode(bytes));
        Record::Stdout(Output { seq, data, data_base64 })
    }

    fn texts(entries: &Entries) -> Vec<&str> {
        entries.output.iter().map(|entry| entry.data.as_str()).collect()
    }

    #[test]
    fn a_character_in_two_records_is_one() {
        let mut entries = Entries::default();
        let euro = "€".as_bytes();
        entries.add(out(1, &[b"a", &euro[..2]].concat()));
        entries.add(out(2, &[&euro[2..], b"b\xff"].concat()));
        entries.add(out(3, &euro[..1]));
        entries.push(0, &[], true);
        assert_eq!(texts(&entries), ["a", "€b\u{fffd}", "\u{fffd}"]);
        assert_eq!((entries.next_offset, entries.truncated), (3, false));
    }

    #[test]
    fn the_newest_entries_are_kept() {
        let mut entries = Entries { max_entries: Some(2), ..Entries::default() };
        for seq in 1..=4 {
            entries.add(out(seq, seq.to_string().as_bytes()));
        }
        assert_eq!((texts(&entries), entries.truncated, entries.next_offset), (vec!["3", "4"], true, 4));
        let mut entries = Entries::default();
        for seq in 1..=40 {
            entries.add(out(seq, &[b'x'; 8192]));
        }
        assert!(entries.truncated && entries.bytes <= MAX_BYTES && entries.output.len() > 10);
    }

    #[test]
    fn a_gap_is_reported() {
        let mut entries = Entries::default();
        entries.add(Record::Gap { dropped_bytes: 9, next_seq: 5 });
        assert_eq!((entries.truncated, entries.next_offset), (true, 4));
    }
}
