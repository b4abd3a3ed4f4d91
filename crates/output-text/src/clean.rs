//! Removes what only a terminal can show: colours and other escape sequences, control characters, and the earlier
//! states of a progress bar.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memrchr};

use crate::sequences::{Sequences, is_shown};

/// Bytes of an incomplete line that a carriage return may replace. More are passed on as they are.
pub const MAX_HELD_BYTES: usize = 8 * 1024;

/// Length that an incomplete line reaches before its beginning is passed on. Passing on each byte as soon as possible would
/// move the rest of the line each time.
const MAX_LINE_BYTES: usize = 2 * MAX_HELD_BYTES;

/// Cleans text in pieces. The result does not depend on where the text is split.
///
/// Escape sequences (ECMA-48) and control characters are removed, except line feeds and tabs. Of a line that is
/// written several times after carriage returns, only the last state is kept.
#[derive(Debug, Default)]
pub struct Cleaner {
    sequences: Sequences,
    /// The incomplete line.
    line: String,
    /// Whether the next character replaces the line.
    is_returned: bool,
}

impl Cleaner {
    /// Passes the complete lines of `text`, and what is too long to be held back, to `pass`.
    pub fn push(&mut self, text: &str, mut pass: impl FnMut(&str)) {
        let mut rest = text;
        while !rest.is_empty() {
            let plain = self.plain_bytes(rest);
            self.push_plain(&rest[..plain], &mut pass);
            let skipped = self.hidden_bytes(&rest[plain..]);
            rest = &rest[plain + skipped..];
        }
    }

    /// Length of the text before the next escape sequence or control character.
    fn plain_bytes(&self, text: &str) -> usize {
        if self.sequences.is_within() {
            return 0;
        }
        text.bytes().position(|byte| byte.is_ascii_control() && !is_shown(byte)).unwrap_or(text.len())
    }

    /// Length of the escape sequences and control characters at the start of the text.
    fn hidden_bytes(&mut self, text: &str) -> usize {
        text.bytes().position(|byte| self.sequences.shows(byte)).unwrap_or(text.len())
    }

    /// The end of the incomplete line, which was not passed on yet.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Adds text without escape sequences.
    fn push_plain(&mut self, text: &str, pass: &mut impl FnMut(&str)) {
        if memchr(b'\r', text.as_bytes()).is_none() && !self.is_returned {
            return self.push_lines(text, pass);
        }
        for line in text.split_inclusive('\n') {
            self.push_overwritten(line, pass);
        }
    }

    /// Adds text without carriage returns.
    fn push_lines(&mut self, text: &str, pass: &mut impl FnMut(&str)) {
        let complete = memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1);
        if complete > 0 {
            self.pass_line(pass);
            pass(&text[..complete]);
        }
        self.hold(&text[complete..], pass);
    }

    /// Adds one line, or a part of one, with carriage returns.
    fn push_overwritten(&mut self, text: &str, pass: &mut impl FnMut(&str)) {
        let mut begin = 0;
        for at in memchr_iter(b'\r', text.as_bytes()) {
            self.replace_or_hold(&text[begin..at], pass);
            self.is_returned = true;
            begin = at + 1;
        }
        let rest = &text[begin..];
        match rest.strip_suffix('\n') {
            None => self.replace_or_hold(rest, pass),
            Some(rest) => {
                self.replace_or_hold(rest, pass);
                self.is_returned = false;
                self.pass_line(pass);
                pass("\n");
            }
        }
    }

    fn replace_or_hold(&mut self, text: &str, pass: &mut impl FnMut(&str)) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_returned) {
            self.pass_excess(pass);
            self.line.clear();
        }
        self.hold(text, pass);
    }

    fn hold(&mut self, text: &str, pass: &mut impl FnMut(&str)) {
        self.line.push_str(text);
        if self.line.len() > MAX_LINE_BYTES {
            self.pass_excess(pass);
        }
    }

    /// Passes on what a carriage return does not replace.
    fn pass_excess(&mut self, pass: &mut impl FnMut(&str)) {
        let excess = self.line.len().saturating_sub(MAX_HELD_BYTES);
        if excess > 0 {
            let excess = self.line.ceil_char_boundary(excess);
            pass(&self.line[..excess]);
            self.line.drain(..excess);
        }
    }

    fn pass_line(&mut self, pass: &mut impl FnMut(&str)) {
        if !self.line.is_empty() {
            pass(&self.line);
            self.line.clear();
        }
    }
}

/// Cleans a whole text.
pub fn cleaned(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\n' && byte != b'\t') {
        return Cow::Borrowed(text);
    }
    let mut cleaner = Cleaner::default();
    let mut clean = String::with_capacity(text.len());
    cleaner.push(text, |piece| clean.push_str(piece));
    clean.push_str(cleaner.line());
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_pieces(text: &str, cuts: &[usize]) -> String {
        let mut cuts: Vec<usize> =
            cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut cleaner = Cleaner::default();
        let mut clean = String::new();
        for ends in cuts.windows(2) {
            cleaner.push(&text[ends[0]..ends[1]], |piece| clean.push_str(piece));
        }
        clean + cleaner.line()
    }

    #[test]
    fn colours_and_control_characters_are_removed() {
        assert_eq!(cleaned("\x1b[1;31merror\x1b[0m: a\tb\x07\0\n"), "error: a\tb\n");
        assert_eq!(cleaned("\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "text link");
        assert_eq!(cleaned("a\x1b]0;broken\nb\x1b[3\nc"), "a\nb\nc");
        assert_eq!(cleaned("plain"), "plain");
    }

    #[test]
    fn only_the_last_state_of_a_progress_bar_is_kept() {
        assert_eq!(cleaned("\r 10%\r 50%\r100%\ndone\n"), "100%\ndone\n");
        assert_eq!(cleaned("10%\r\x1b[K20%\r\x1b[K"), "20%");
        assert_eq!(cleaned("a\r\nb\r\r\nc\r"), "a\nb\nc");
        assert_eq!(cleaned("first\nlong line\rshort\n"), "first\nshort\n");
    }

    #[test]
    fn a_long_line_is_passed_on() {
        let mut cleaner = Cleaner::default();
        let mut passed = 0;
        for _ in 0..100 {
            cleaner.push(&"é".repeat(1000), |piece| passed += piece.len());
            assert!(cleaner.line().len() <= MAX_LINE_BYTES);
        }
        assert_eq!(passed + cleaner.line().len(), 200_000);
    }

    #[test]
    fn a_long_line_is_replaced_in_the_same_way_however_it_is_split() {
        let text = format!("{}\rb\n", "é".repeat(10_000));
        let whole = cleaned(&text).into_owned();
        assert_eq!(whole.len(), 20_000 - MAX_HELD_BYTES + 2);
        let cuts: Vec<usize> = (0..text.len()).step_by(100).collect();
        assert_eq!(in_pieces(&text, &cuts), whole);
    }

    #[test]
    fn many_short_pieces_of_a_long_line_are_passed_on_in_few_steps() {
        let mut cleaner = Cleaner::default();
        let mut steps = 0;
        cleaner.push(&"a\x1b[m".repeat(100_000), |_| steps += 1);
        assert!(steps <= 100_000 / MAX_HELD_BYTES, "{steps}");
    }

    #[test]
    fn an_endless_escape_sequence_needs_no_memory() {
        let mut cleaner = Cleaner::default();
        cleaner.push("\x1b]0;", |_| panic!("it is not text"));
        for _ in 0..1000 {
            cleaner.push(&"x".repeat(1000), |_| panic!("it is not text"));
        }
        cleaner.push("\x07text", |_| panic!("the line is incomplete"));
        assert_eq!(cleaner.line(), "text");
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_where_the_text_is_split(
            text in "[ab\r\n\t\x1b\\[0m;é]{0,60}",
            cuts in proptest::collection::vec(any::<usize>(), 0..10),
        ) {
            prop_assert_eq!(in_pieces(&text, &cuts), cleaned(&text).into_owned());
        }
    }
}
