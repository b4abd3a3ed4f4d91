//! The part of an output that a model gets.

use std::fmt;

use crate::clean::Cleaner;
use crate::keep::Keep;
use crate::text::{Decoder, HeadText, TailText};

/// Keeps a part of an output, cleaned. A short output is kept completely.
#[derive(Debug)]
pub struct Excerpt {
    decoder: Decoder,
    cleaner: Cleaner,
    kept: Kept,
}

/// The kept part of cleaned text.
#[derive(Debug)]
struct Kept {
    head: HeadText,
    tail: TailText,
    /// Size of the whole text.
    size: Omitted,
}

/// The part of an output that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Text before the omitted part.
    pub head: String,
    /// Text after the omitted part.
    pub tail: String,
    /// Size of the omitted part.
    pub omitted: Omitted,
}

/// Size of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// Line feeds.
    pub lines: u64,
}

impl Excerpt {
    /// Creates an excerpt of at most `max_chars` characters (Unicode scalar values).
    pub fn new(keep: Keep, max_chars: usize) -> Self {
        let head = keep.head_of(max_chars);
        let kept = Kept {
            head: HeadText::new(head),
            tail: TailText::new(max_chars - head),
            size: Omitted::default(),
        };
        Self { decoder: Decoder::default(), cleaner: Cleaner::default(), kept }
    }

    /// Adds bytes, split at any position. Invalid UTF-8 becomes U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { decoder, cleaner, kept } = self;
        decoder.decode(bytes, |text| cleaner.push(text, |text| kept.push(text)));
    }

    /// Adds a notice about bytes that were lost before they could be added.
    pub fn note_lost(&mut self, bytes: u64) {
        self.push(format!("\n[{bytes} bytes of output were not kept]\n").as_bytes());
    }

    /// Ends the output. An incomplete character at the end becomes U+FFFD.
    pub fn finish(&mut self) {
        let Self { decoder, cleaner, kept } = self;
        decoder.finish(|text| cleaner.push(text, |text| kept.push(text)));
    }

    /// Returns what is kept so far.
    pub fn shown(&self) -> Shown {
        self.kept.shown(self.cleaner.line())
    }
}

impl Kept {
    fn push(&mut self, text: &str) {
        self.size.add(text);
        let rest = self.head.take(text);
        self.tail.push(rest);
    }

    /// Returns what is kept if `line` follows.
    fn shown(&self, line: &str) -> Shown {
        let (mut head, mut tail) = (self.head.clone(), self.tail.clone());
        let mut size = self.size;
        size.add(line);
        tail.push(head.take(line));
        let is_whole_line = tail.is_whole_line();
        let (head, tail) = (head.text(), tail.text());
        if (head.len() + tail.len()) as u64 == size.bytes {
            return Shown { head: head.to_owned() + tail, tail: String::new(), omitted: Omitted::default() };
        }
        let head = whole_lines_at_start(head);
        let tail = if is_whole_line { tail } else { whole_lines_at_end(tail) };
        let mut omitted = size;
        omitted.subtract(head);
        omitted.subtract(tail);
        Shown { head: head.to_owned(), tail: tail.to_owned(), omitted }
    }
}

/// Share of a text that may be omitted to cut it between lines: one in this many.
const LINE_SHARE: usize = 4;

/// Omits an incomplete line at the end, unless it is long.
fn whole_lines_at_start(text: &str) -> &str {
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    if text.len() - end <= text.len() / LINE_SHARE { &text[..end] } else { text }
}

/// Omits an incomplete line at the start, unless it is long.
fn whole_lines_at_end(text: &str) -> &str {
    let begin = text.find('\n').map_or(text.len(), |at| at + 1);
    if begin <= text.len() / LINE_SHARE { &text[begin..] } else { text }
}

impl Omitted {
    fn add(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += lines_of(text);
    }

    fn subtract(&mut self, text: &str) {
        self.bytes -= text.len() as u64;
        self.lines -= lines_of(text);
    }

    /// Whether nothing is omitted.
    pub fn is_nothing(&self) -> bool {
        self.bytes == 0
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lines {
            0 => write!(f, "{} bytes of one line", self.bytes),
            1 => write!(f, "{} bytes (1 line)", self.bytes),
            lines => write!(f, "{} bytes ({lines} lines)", self.bytes),
        }
    }
}

impl Shown {
    /// The text, with a line in place of the omitted part. `location` says where the whole output is.
    pub fn with_notice(&self, location: Option<&str>) -> String {
        let Self { head, tail, omitted } = self;
        if omitted.is_nothing() {
            return format!("{head}{tail}");
        }
        let before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        let location = location.map(|location| format!(": see {location}")).unwrap_or_default();
        format!("{head}{before}[{omitted} not shown{location}]\n{tail}")
    }
}

fn lines_of(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(keep: Keep, max_chars: usize, bytes: &[u8]) -> Shown {
        let mut excerpt = Excerpt::new(keep, max_chars);
        excerpt.push(bytes);
        excerpt.finish();
        excerpt.shown()
    }

    #[test]
    fn a_short_output_is_complete() {
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let shown = shown(keep, 12, b"one\ntwo\nlast");
            assert_eq!(shown.with_notice(None), "one\ntwo\nlast");
            assert!(shown.omitted.is_nothing());
        }
    }

    #[test]
    fn the_omitted_part_is_replaced_by_one_line() {
        let numbers: String = (0..1000).map(|number| format!("{number}\n")).collect();
        let notice = |keep, location| shown(keep, 16, numbers.as_bytes()).with_notice(location);
        assert_eq!(
            notice(Keep::Both, Some("/full")),
            "0\n1\n2\n3\n[3874 bytes (994 lines) not shown: see /full]\n998\n999\n"
        );
        assert_eq!(notice(Keep::Head, None), "0\n1\n2\n3\n4\n5\n6\n7\n[3874 bytes (992 lines) not shown]\n");
        assert_eq!(notice(Keep::Tail, None), "[3874 bytes (996 lines) not shown]\n996\n997\n998\n999\n");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let shown = shown(Keep::Both, 5, "é".repeat(100).as_bytes());
        assert_eq!(shown.with_notice(None), "éé\n[190 bytes of one line not shown]\nééé");
    }

    #[test]
    fn the_incomplete_line_is_shown() {
        let mut excerpt = Excerpt::new(Keep::Tail, 100);
        excerpt.push(b"done\n10%\r20%");
        assert_eq!(excerpt.shown().with_notice(None), "done\n20%");
        excerpt.push(b"\r30%\n");
        assert_eq!(excerpt.shown().with_notice(None), "done\n30%\n");
    }

    #[test]
    fn lost_bytes_are_reported() {
        let mut excerpt = Excerpt::new(Keep::Tail, 100);
        excerpt.push(b"a");
        excerpt.note_lost(7);
        excerpt.push(b"b");
        assert_eq!(excerpt.shown().with_notice(None), "a\n[7 bytes of output were not kept]\nb");
    }

    proptest! {
        /// What is shown and what is omitted add up to the whole, within the limit.
        #[test]
        fn every_byte_is_shown_or_counted(
            text in "[abé\n]{0,200}",
            max_chars in 0..60_usize,
            keep in prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::Both)],
            cut in any::<usize>(),
        ) {
            let mut excerpt = Excerpt::new(keep, max_chars);
            let (first, second) = text.as_bytes().split_at(cut % (text.len() + 1));
            excerpt.push(first);
            excerpt.push(second);
            excerpt.finish();
            let shown = excerpt.shown();
            prop_assert!(shown.head.chars().count() + shown.tail.chars().count() <= max_chars);
            prop_assert!(text.starts_with(&shown.head) && text.ends_with(&shown.tail));
            let bytes = shown.head.len() + shown.tail.len();
            prop_assert_eq!(bytes as u64 + shown.omitted.bytes, text.len() as u64);
            let lines = lines_of(&shown.head) + lines_of(&shown.tail);
            prop_assert_eq!(lines + shown.omitted.lines, lines_of(&text));
            if text.chars().count() <= max_chars {
                prop_assert_eq!(shown.head, text);
            }
        }
    }
}
