//! What a terminal wrote: the last of it as bytes, all of it as a count.
//!
//! Offsets count from the terminal's start, so a viewer can say where it was whatever has been dropped since. The
//! surprise: beside the bytes it keeps places at which a viewer may begin, because the oldest byte that is left is
//! most often in the middle of something.

use std::collections::VecDeque;

use bytes::Bytes;

use super::scan::Scanner;

/// Distance of two places to begin at, in bytes, which bounds how many there are.
const PLACE_EVERY: u64 = 1024;

/// The bytes kept, and where they stand in the whole.
#[derive(Debug)]
pub(super) struct History {
    limit: usize,
    bytes: VecDeque<u8>,
    /// Offset behind the last byte.
    end: u64,
    scanner: Scanner,
    /// Offset behind the last whole sequence.
    whole: u64,
    /// Offsets of beginnings of lines, where nothing is under way.
    places: VecDeque<u64>,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        let (bytes, places) = (VecDeque::new(), VecDeque::new());
        Self { limit, bytes, end: 0, scanner: Scanner::default(), whole: 0, places }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        for byte in data {
            self.end += 1;
            if self.scanner.step(*byte) {
                self.whole = self.end;
                let last = self.places.back().copied().unwrap_or(0);
                if *byte == b'\n' && self.end - last >= PLACE_EVERY {
                    self.places.push_back(self.end);
                }
            }
        }
        self.bytes.extend(data);
        let surplus = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..surplus);
        let start = self.start();
        while self.places.front().is_some_and(|place| *place < start) {
            self.places.pop_front();
        }
    }

    /// Offset behind the last byte: how many there were.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Offset of the oldest byte that is kept.
    fn start(&self) -> u64 {
        self.end - self.bytes.len() as u64
    }

    /// Where the sequence begins that is under way, or else the end. A screen shows nothing of what lies behind.
    pub(super) fn whole(&self) -> u64 {
        self.whole.max(self.start())
    }

    /// Where to begin with what is kept: at the very start, or where a line begins.
    pub(super) fn first_place(&self) -> u64 {
        match self.start() {
            0 => 0,
            _ => self.places.front().copied().unwrap_or_else(|| self.whole()),
        }
    }

    /// Up to `max_bytes` from `offset` on, up to `until`; `None` where that is not kept or has not been yet.
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
    fn a_reader_goes_on_where_it_was() {
        let mut history = History::new(8);
        history.push(b"abcdef");
        assert_eq!(all(&history, 4).as_deref(), Some("ef"));
        history.push(b"ghij");
        assert_eq!(all(&history, 6).as_deref(), Some("ghij"));
        assert_eq!(all(&history, 10).as_deref(), Some(""));
        assert_eq!(all(&history, 1), None, "it is dropped");
        assert_eq!(all(&history, 11), None, "it is not written yet");
    }

    #[test]
    fn who_begins_later_begins_with_a_whole_line() {
        let mut history = History::new(4096);
        for number in 0..1000 {
            history.push(format!("\x1b[31mline {number}\x1b[0m\r\n").as_bytes());
        }
        let place = history.first_place();
        assert!(place > history.start());
        assert!(all(&history, place).unwrap().starts_with("\x1b[31mline "));
    }

    #[test]
    fn a_sequence_under_way_is_not_whole() {
        let mut history = History::new(4096);
        history.push(b"text\x1b[3");
        assert_eq!(all(&history, history.whole()).as_deref(), Some("\x1b[3"));
        history.push(b"1m");
        assert_eq!(history.whole(), history.end());
    }
}
