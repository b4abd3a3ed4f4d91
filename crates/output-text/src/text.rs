//! Converts a byte stream to text of limited length, with a count of omitted characters.
//!
//! Lengths are in characters (Unicode scalar values), and no character is split. Invalid UTF-8 becomes U+FFFD,
//! exactly as in `String::from_utf8_lossy` of the whole stream. The cost per byte does not depend on the length of
//! the stream.

use std::str::from_utf8;

use crate::keep::Keep;

/// Keeps a part of a text unchanged: its first and last characters.
#[derive(Debug)]
pub struct Part {
    decoder: Decoder,
    kept: Ends,
}

#[derive(Debug)]
struct Ends {
    head: HeadText,
    tail: TailText,
    /// Maximum number of kept characters.
    max_chars: usize,
    /// Number of characters of the whole text.
    chars: u64,
}

impl Part {
    /// Creates a part of at most `max_chars` characters.
    pub fn new(keep: Keep, max_chars: usize) -> Self {
        let head = keep.head_of(max_chars);
        let kept =
            Ends { head: HeadText::new(head), tail: TailText::new(max_chars - head), max_chars, chars: 0 };
        Self { decoder: Decoder::default(), kept }
    }

    /// Adds bytes, split at any position.
    pub fn push(&mut self, bytes: &[u8]) {
        let Self { decoder, kept } = self;
        decoder.decode(bytes, |more| kept.push(more));
    }

    /// Ends the stream. An incomplete character at the end becomes U+FFFD.
    pub fn finish(&mut self) {
        let Self { decoder, kept } = self;
        decoder.finish(|more| kept.push(more));
    }

    /// Returns the kept characters before the omitted ones.
    pub fn head(&self) -> &str {
        self.kept.head.text()
    }

    /// Returns the kept characters after the omitted ones.
    pub fn tail(&self) -> &str {
        self.kept.tail.text()
    }

    /// Returns the kept characters, with a line in place of omitted ones between them.
    pub fn text(&self) -> String {
        let (head, tail) = (self.head(), self.tail());
        match self.dropped_chars() {
            dropped if dropped > 0 && !head.is_empty() && !tail.is_empty() => {
                format!("{head}\n[{dropped} characters not shown]\n{tail}")
            }
            _ => format!("{head}{tail}"),
        }
    }

    /// Total number of characters, without an incomplete one at the end.
    pub fn chars(&self) -> u64 {
        self.kept.chars
    }

    /// Number of omitted characters.
    pub fn dropped_chars(&self) -> u64 {
        self.kept.chars.saturating_sub(self.kept.max_chars as u64)
    }
}

impl Ends {
    fn push(&mut self, more: &str) {
        self.chars += count(more);
        let rest = self.head.take(more);
        self.tail.push(rest);
    }
}

/// The first characters of a text.
#[derive(Debug, Clone)]
pub(crate) struct HeadText {
    text: String,
    /// Number of characters that still fit.
    room: usize,
}

impl HeadText {
    pub(crate) fn new(max_chars: usize) -> Self {
        Self { text: String::new(), room: max_chars }
    }

    /// Keeps what fits of the next text and returns the rest.
    pub(crate) fn take<'a>(&mut self, more: &'a str) -> &'a str {
        if self.room == 0 {
            return more;
        }
        let cut = more.char_indices().nth(self.room).map_or(more.len(), |(at, _)| at);
        let (fits, rest) = more.split_at(cut);
        self.text.push_str(fits);
        self.room -= fits.chars().count();
        rest
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The last characters of a text.
#[derive(Debug, Clone)]
pub(crate) struct TailText {
    /// End of the text, at most a few times as long as the kept part.
    text: String,
    max_chars: usize,
}

/// Factor by which the buffer may exceed the kept text before its beginning is removed, so that moving the rest is
/// rare.
const SLACK: usize = 2;

/// Maximum length of a UTF-8 character in bytes.
const CHAR_BYTES: usize = 4;

impl TailText {
    pub(crate) fn new(max_chars: usize) -> Self {
        Self { text: String::new(), max_chars }
    }

    pub(crate) fn push(&mut self, more: &str) {
        let enough = self.max_chars.saturating_mul(CHAR_BYTES);
        // One more, to know whether the kept text begins with a line.
        if more.len() > enough + CHAR_BYTES {
            self.text.clear();
            self.text.push_str(last_chars(more, self.max_chars + 1));
            return;
        }
        if self.text.len() + more.len() > enough.saturating_mul(SLACK) {
            let start = self.text.len() - last_chars(&self.text, self.max_chars + 1).len();
            self.text.drain(..start);
        }
        self.text.push_str(more);
    }

    pub(crate) fn text(&self) -> &str {
        last_chars(&self.text, self.max_chars)
    }

    /// Whether a line feed comes before the kept text.
    pub(crate) fn is_whole_line(&self) -> bool {
        self.text[..self.text.len() - self.text().len()].ends_with('\n')
    }
}

fn count(text: &str) -> u64 {
    text.chars().count() as u64
}

fn last_chars(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    let Some(before) = max_chars.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(before).map_or(text, |(at, _)| &text[at..])
}

/// UTF-8 in pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Beginning of a character, up to three bytes.
    partial: Vec<u8>,
}

const REPLACEMENT: &str = "\u{fffd}";

impl Decoder {
    pub(crate) fn decode(&mut self, mut bytes: &[u8], mut text: impl FnMut(&str)) {
        while !self.partial.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return };
            self.partial.push(*first);
            match from_utf8(&self.partial) {
                Ok(character) => text(character),
                Err(error) if error.error_len().is_none() => {
                    bytes = rest;
                    continue;
                }
                // The byte that does not continue the character starts a new one.
                Err(_) => {
                    text(REPLACEMENT);
                    self.partial.clear();
                    break;
                }
            }
            self.partial.clear();
            bytes = rest;
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            if !chunk.valid().is_empty() {
                text(chunk.valid());
            }
            let is_begun = chunks.peek().is_none()
                && from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                self.partial.extend_from_slice(chunk.invalid());
            } else if !chunk.invalid().is_empty() {
                text(REPLACEMENT);
            }
        }
    }

    pub(crate) fn finish(&mut self, mut text: impl FnMut(&str)) {
        if !std::mem::take(&mut self.partial).is_empty() {
            text(REPLACEMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let mut slots: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        slots.extend([0, bytes.len()]);
        slots.sort_unstable();
        slots.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
    }

    fn part_of(pieces: &[Vec<u8>], keep: Keep, max_chars: usize) -> (String, String, u64) {
        let mut part = Part::new(keep, max_chars);
        for piece in pieces {
            part.push(piece);
        }
        part.finish();
        (part.head().to_owned(), part.tail().to_owned(), part.dropped_chars())
    }

    #[test]
    fn a_character_split_over_two_chunks_is_joined() {
        let mut tail = Part::new(Keep::Tail, 3);
        tail.push(b"ab\xf0\x9f");
        assert_eq!((tail.tail(), tail.dropped_chars()), ("ab", 0));
        tail.push(b"\x98\x80c");
        assert_eq!((tail.tail(), tail.dropped_chars()), ("b\u{1f600}c", 1));
    }

    #[test]
    fn an_incomplete_character_at_the_end_is_replaced() {
        let mut tail = Part::new(Keep::Tail, 9);
        tail.push(b"a\xe2\x82");
        assert_eq!(tail.tail(), "a");
        tail.finish();
        assert_eq!(tail.tail(), "a\u{fffd}");
    }

    #[test]
    fn the_memory_for_a_long_stream_is_limited() {
        let mut tail = Part::new(Keep::Tail, 1000);
        for at in 0..10_000_u32 {
            tail.push(format!("{at:0100}é").as_bytes());
        }
        assert!(
            tail.kept.tail.text.capacity() <= 1000 * CHAR_BYTES * SLACK * 2,
            "{}",
            tail.kept.tail.text.capacity()
        );
        assert_eq!(tail.tail().chars().count(), 1000);
        assert_eq!(tail.dropped_chars(), 1_010_000 - 1000);
    }

    proptest! {
        /// Splitting the input anywhere gives the same result.
        #[test]
        fn output_does_not_depend_on_chunk_boundaries(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                "[aé€\u{1f600}]{0,80}".prop_map(String::into_bytes),
                "[aé€\u{1f600}]{0,80}".prop_map(|text| text.into_bytes().into_iter().skip(1).collect()),
            ],
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
            max_chars in 0..30_usize,
        ) {
            let whole = String::from_utf8_lossy(&bytes).into_owned();
            let total = whole.chars().count();
            let omitted = total.saturating_sub(max_chars);
            let last: String = whole.chars().skip(omitted).collect();
            let first: String = whole.chars().take(max_chars).collect();
            let before = max_chars / 2;
            let of_both: String = whole.chars().take(before).collect();
            let rest: String = whole.chars().skip(before.max((before + total).saturating_sub(max_chars))).collect();
            let (pieces, omitted) = (pieces(&bytes, &cuts), omitted as u64);
            prop_assert_eq!(part_of(&pieces, Keep::Tail, max_chars), (String::new(), last, omitted));
            prop_assert_eq!(part_of(&pieces, Keep::Head, max_chars), (first, String::new(), omitted));
            prop_assert_eq!(part_of(&pieces, Keep::Both, max_chars), (of_both, rest, omitted));
        }
    }
}
