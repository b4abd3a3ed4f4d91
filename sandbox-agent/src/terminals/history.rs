//! The output of a terminal: its last bytes, and the total count.
//!
//! Offsets count from the terminal's start, so a viewer can name its position no matter what has been dropped since.
//! The oldest kept byte is usually in the middle of a line or a sequence. The history therefore also keeps the
//! offsets at which a viewer may start.

use std::collections::VecDeque;

use bytes::Bytes;

use super::scan::Scanner;

/// Minimum distance of two start offsets in bytes. It limits how many there are.
const START_DISTANCE: u64 = 1024;

/// The kept bytes, and their offsets.
#[derive(Debug)]
pub(super) struct History {
    limit: usize,
    bytes: VecDeque<u8>,
    /// Offset after the last byte.
    end: u64,
    scanner: Scanner,
    /// Offset after the last complete sequence.
    complete_end: u64,
    /// Offsets of line starts outside any sequence.
    starts: VecDeque<u64>,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        let (bytes, starts) = (VecDeque::new(), VecDeque::new());
        Self { limit, bytes, end: 0, scanner: Scanner::default(), complete_end: 0, starts }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        for byte in data {
            self.end += 1;
            if self.scanner.step(*byte) {
                self.complete_end = self.end;
                let last = self.starts.back().copied().unwrap_or(0);
                if *byte == b'\n' && self.end - last >= START_DISTANCE {
                    self.starts.push_back(self.end);
                }
            }
        }
        self.bytes.extend(data);
        let surplus = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..surplus);
        let start = self.start();
        while self.starts.front().is_some_and(|place| *place < start) {
            self.starts.pop_front();
        }
    }

    /// Returns the offset after the last byte, which is the total number of bytes.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the offset of the oldest kept byte.
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// Returns the start of an incomplete sequence at the end, or else the end. The screen does not show an
    /// incomplete sequence.
    pub(super) fn complete_end(&self) -> u64 {
        self.complete_end.max(self.start())
    }

    /// Returns the first offset at which a viewer may start: the start of all output, or a line start.
    pub(super) fn first_start(&self) -> u64 {
        match self.start() {
            0 => 0,
            _ => self.starts.front().copied().unwrap_or_else(|| self.complete_end()),
        }
    }

    /// Returns up to `max_bytes` from `offset`, ending before `until`. Returns `None` if `offset` is dropped or not
    /// written yet.
    pub(super) fn read(&self, offset: u64, until: u64, max_bytes: usize) -> Option<Bytes> {
        if offset < self.start() || offset > self.end {
            return None;
        }
        let from = (offset - self.start()) as usize;
        let available = (until.min(self.end).saturating_sub(offset)) as usize;
        let to = from + available.min(max_bytes);
        Some(self.bytes.range(from..to).copied().collect::<Vec<u8>>().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(history: &History, offset: u64) -> Option<String> {
        let bytes = history.read(offset, history.end(), usize::MAX)?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_reader_continues_at_its_offset() {
        let mut history = History::new(8);
        history.push(b"abcdef");
        assert_eq!(all(&history, 4).as_deref(), Some("ef"));
        history.push(b"ghij");
        assert_eq!(all(&history, 6).as_deref(), Some("ghij"));
        assert_eq!(all(&history, 10).as_deref(), Some(""));
        assert_eq!(all(&history, 1), None, "the byte was dropped");
        assert_eq!(all(&history, 11), None, "the byte is not written yet");
    }

    #[test]
    fn a_later_reader_starts_with_a_whole_line() {
        let mut history = History::new(4096);
        for number in 0..1000 {
            history.push(format!("\x1b[31mline {number}\x1b[0m\r\n").as_bytes());
        }
        let place = history.first_start();
        assert!(place > history.start());
        assert!(all(&history, place).unwrap().starts_with("\x1b[31mline "));
    }

    #[test]
    fn an_incomplete_sequence_is_excluded() {
        let mut history = History::new(4096);
        history.push(b"text\x1b[3");
        assert_eq!(all(&history, history.complete_end()).as_deref(), Some("\x1b[3"));
        history.push(b"1m");
        assert_eq!(history.complete_end(), history.end());
    }
}
