//! The output log of one command: its records in order, up to a maximum size.
//!
//! When the log is full, the oldest records are dropped, and every reader gets the number of bytes that it missed.
//! While the primary reader streams the log, its unread records are not dropped. [`Log::has_room`] then says when the
//! command must wait. Half of the capacity may be unread. The other half keeps the records that were sent last, so
//! that a reader whose connection broke can get them again.

use std::collections::VecDeque;

use agent_protocol::v1;
use bytes::Bytes;

/// Cost of a record beside its bytes, so that a command that writes single bytes is bounded too.
const RECORD_COST_BYTES: usize = 64;

/// Number of lengths kept of dropped records. A gap is exact for every reader that is not further behind.
const DROPPED_LENGTHS_KEPT: usize = 65_536;

/// The stream of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    /// What bash reports about the commands that it runs. Not part of the command's output.
    Trace,
    /// The report of a pipeline's stage. Not part of the command's output.
    Stage,
}

impl Stream {
    /// Whether the command writes to it.
    pub(crate) fn is_output(self) -> bool {
        matches!(self, Self::Stdout | Self::Stderr)
    }
}

#[derive(Debug)]
struct Record {
    stream: Stream,
    data: Bytes,
}

/// The result of a read: records, or a gap in place of dropped records.
#[derive(Debug, PartialEq)]
pub(crate) enum Chunk {
    Records(Vec<v1::Record>),
    Gap(v1::Gap),
}

/// Sequence numbers start at 1 and are never reused. Record `n` follows record `n - 1`.
#[derive(Debug)]
pub(crate) struct Log {
    records: VecDeque<Record>,
    /// Sequence number of `records[0]`, or of the next record if there is none.
    first_seq: u64,
    cost: usize,
    capacity: usize,
    dropped_lengths: VecDeque<u32>,
    dropped_bytes: u64,
    stdout_bytes: u64,
    stderr_bytes: u64,
    /// Sequence number of the record that the primary reader needs next.
    anchor: Option<u64>,
    unread_cost: usize,
}

impl Log {
    /// Creates a log that keeps about `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            records: VecDeque::new(),
            first_seq: 1,
            cost: 0,
            capacity,
            dropped_lengths: VecDeque::new(),
            dropped_bytes: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            anchor: None,
            unread_cost: 0,
        }
    }

    /// Returns the sequence number of the next record to be written.
    pub(crate) fn next_seq(&self) -> u64 {
        self.first_seq + self.records.len() as u64
    }

    /// Returns the size of the log in memory, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    pub(crate) fn stdout_bytes(&self) -> u64 {
        self.stdout_bytes
    }

    pub(crate) fn stderr_bytes(&self) -> u64 {
        self.stderr_bytes
    }

    pub(crate) fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Whether the command may continue to write. If not, it must wait for its primary reader. `limit` is the maximum
    /// size.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        self.anchor.is_none() || self.unread_cost < limit.min(self.capacity) / 2
    }

    /// Adds a record. Drops the oldest ones if the log is full.
    pub(crate) fn push(&mut self, stream: Stream, data: Bytes) {
        let length = data.len() as u64;
        match stream {
            Stream::Stdout => self.stdout_bytes += length,
            Stream::Stderr => self.stderr_bytes += length,
            Stream::Trace | Stream::Stage => {}
        }
        let cost = cost_of(&data);
        self.cost += cost;
        if self.anchor.is_some() {
            self.unread_cost += cost;
        }
        self.records.push_back(Record { stream, data });
        self.trim_to(self.capacity);
    }

    /// Drops the oldest records until the log has at most `limit` bytes. Never drops the newest record, or one that
    /// the primary reader still needs.
    pub(crate) fn trim_to(&mut self, limit: usize) {
        while self.cost > limit && self.records.len() > 1 {
            if self.anchor.is_some_and(|next| next <= self.first_seq) {
                return;
            }
            self.drop_first();
        }
    }

    /// Drops all records. From now on only the newest record is kept.
    pub(crate) fn clear(&mut self) {
        self.anchor = None;
        self.capacity = 0;
        while !self.records.is_empty() {
            self.drop_first();
        }
        self.records.shrink_to_fit();
        self.dropped_lengths = VecDeque::new();
    }

    fn drop_first(&mut self) {
        let Some(record) = self.records.pop_front() else {
            return;
        };
        self.cost -= cost_of(&record.data);
        self.first_seq += 1;
        self.dropped_bytes += record.data.len() as u64;
        if self.dropped_lengths.len() == DROPPED_LENGTHS_KEPT {
            self.dropped_lengths.pop_front();
        }
        let length = u32::try_from(record.data.len()).unwrap_or(u32::MAX);
        self.dropped_lengths.push_back(length);
    }

    /// Sets `next` as the record that the primary reader needs. Later records are not dropped.
    pub(crate) fn set_anchor(&mut self, next: u64) {
        match self.anchor {
            Some(old) if old <= next && old >= self.first_seq => {
                let from = (old - self.first_seq) as usize;
                let to = ((next - self.first_seq) as usize).min(self.records.len());
                let read: usize = self.records.range(from..to).map(|r| cost_of(&r.data)).sum();
                self.unread_cost -= read;
            }
            _ => {
                let from = (next.saturating_sub(self.first_seq) as usize).min(self.records.len());
                self.unread_cost = self.records.range(from..).map(|r| cost_of(&r.data)).sum();
            }
        }
        self.anchor = Some(next);
    }

    /// Removes the anchor, so that all records may be dropped again.
    pub(crate) fn release_anchor(&mut self) {
        self.anchor = None;
        self.unread_cost = 0;
        self.trim_to(self.capacity);
    }

    /// Returns the records after `after`, with up to `max_bytes` of data but at least one record. Returns `None` if
    /// there is none yet.
    pub(crate) fn read(&self, after: u64, max_bytes: usize) -> Option<Chunk> {
        let next = after.saturating_add(1);
        if next < self.first_seq {
            return Some(Chunk::Gap(v1::Gap {
                dropped_bytes: self.dropped_since(next),
                next_seq: self.first_seq,
            }));
        }
        let from = (next - self.first_seq) as usize;
        if from >= self.records.len() {
            return None;
        }
        let mut records = Vec::new();
        let mut bytes = 0;
        for (record, seq) in self.records.range(from..).zip(next..) {
            if bytes > 0 && bytes + record.data.len() > max_bytes {
                break;
            }
            bytes += record.data.len();
            records.push(v1::Record {
                seq,
                stream: to_wire(record.stream) as i32,
                data: record.data.clone(),
            });
        }
        Some(Chunk::Records(records))
    }

    /// Returns the number of bytes of the dropped records from `next` on. Exact for the start of the log and for the
    /// last [`DROPPED_LENGTHS_KEPT`] records. Otherwise counts only those.
    fn dropped_since(&self, next: u64) -> u64 {
        if next == 1 {
            return self.dropped_bytes;
        }
        let missed = usize::try_from(self.first_seq - next).unwrap_or(usize::MAX);
        let kept = self.dropped_lengths.len();
        self.dropped_lengths.range(kept.saturating_sub(missed)..).map(|length| u64::from(*length)).sum()
    }
}

fn cost_of(data: &Bytes) -> usize {
    data.len() + RECORD_COST_BYTES
}

fn to_wire(stream: Stream) -> v1::Stream {
    match stream {
        Stream::Stdout => v1::Stream::Stdout,
        Stream::Stderr => v1::Stream::Stderr,
        Stream::Trace => v1::Stream::Trace,
        Stream::Stage => v1::Stream::Stage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(capacity_records: usize, lines: &[&str]) -> Log {
        let mut log = Log::new(capacity_records * (RECORD_COST_BYTES + 4));
        for line in lines {
            log.push(Stream::Stdout, Bytes::copy_from_slice(line.as_bytes()));
        }
        log
    }

    fn seqs(chunk: Option<Chunk>) -> Vec<u64> {
        match chunk {
            Some(Chunk::Records(records)) => records.iter().map(|r| r.seq).collect(),
            other => panic!("expected records, found {other:?}"),
        }
    }

    #[test]
    fn a_reader_gets_the_records_after_its_last_one() {
        let log = log_of(8, &["aaaa", "bbbb", "cccc"]);
        assert_eq!(seqs(log.read(0, 100)), [1, 2, 3]);
        assert_eq!(seqs(log.read(2, 100)), [3]);
        assert_eq!(log.read(3, 100), None);
    }

    #[test]
    fn one_read_is_bounded_but_never_empty() {
        let log = log_of(8, &["aaaa", "bbbb", "cccc"]);
        assert_eq!(seqs(log.read(0, 8)), [1, 2]);
        assert_eq!(seqs(log.read(0, 1)), [1]);
    }

    #[test]
    fn a_full_log_drops_the_oldest_records_and_reports_their_size() {
        let log = log_of(2, &["aaaa", "bbbb", "cccc", "dddd"]);
        let gap = |dropped_bytes| Some(Chunk::Gap(v1::Gap { dropped_bytes, next_seq: 3 }));
        assert_eq!(log.read(0, 100), gap(8));
        assert_eq!(log.read(1, 100), gap(4));
        assert_eq!(seqs(log.read(2, 100)), [3, 4]);
        assert_eq!(log.dropped_bytes(), 8);
        assert_eq!(log.stdout_bytes(), 16);
    }

    #[test]
    fn an_anchor_keeps_unread_records() {
        let mut log = log_of(2, &[]);
        log.set_anchor(1);
        for _ in 0..4 {
            log.push(Stream::Stdout, Bytes::from_static(b"aaaa"));
        }
        assert!(!log.has_room(usize::MAX));
        assert_eq!(seqs(log.read(0, 100)), [1, 2, 3, 4]);

        log.set_anchor(5);
        assert!(log.has_room(usize::MAX));
        log.push(Stream::Stdout, Bytes::from_static(b"aaaa"));
        assert_eq!(seqs(log.read(3, 100)), [4, 5]);

        log.release_anchor();
        assert!(log.has_room(usize::MAX));
    }

    #[test]
    fn a_cleared_log_keeps_its_numbers_and_counts() {
        let mut log = log_of(8, &["aaaa", "bbbb"]);
        log.clear();
        assert_eq!(log.cost(), 0);
        assert_eq!(log.next_seq(), 3);
        assert_eq!(log.dropped_bytes(), 8);
    }
}
