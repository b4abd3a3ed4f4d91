//! The position in a script, and what is known at it.

use std::ops::Range;

/// Maximum depth of quotes, substitutions and compound commands in each other.
pub(super) const MAX_DEPTH: usize = 50;

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageText {
    /// Position of the stage's text in the script.
    pub text: Range<usize>,
    /// Position after the operator that leads to the next stage.
    pub next: Option<usize>,
}

/// What ends a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Script,
    Parenthesis,
    /// One of these reserved words.
    Words(&'static [&'static str]),
    /// The end of a clause of `case`, or of the whole.
    Clause,
}

/// A here-document whose text has not been read yet.
#[derive(Debug)]
pub(super) struct HereDocument {
    /// The line that ends the text.
    pub(super) last_line: Vec<u8>,
    /// Whether tabs at the beginning of a line do not count.
    pub(super) skips_tabs: bool,
}

/// The script is not understood at the scanner's position.
#[derive(Debug)]
pub(super) struct NotUnderstood;

/// What reading a part of the script results in.
pub(super) type Scan<T> = Result<T, NotUnderstood>;

/// A pipeline outside of all compound commands.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) stages: Vec<StageText>,
    pub(super) in_background: bool,
}

/// Reads a script from its start to its end.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    pub(super) depth: usize,
    /// Here-documents whose text begins after the next line feed.
    pub(super) here_documents: Vec<HereDocument>,
    /// The last pipeline outside of all compound commands.
    pub(super) last: Option<Pipeline>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(script: &'a str) -> Self {
        Self { text: script.as_bytes(), at: 0, depth: 0, here_documents: Vec::new(), last: None }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.text[self.at..].starts_with(text.as_bytes())
    }

    /// Skips `text` if it is next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let is_next = self.starts_with(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    /// Skips `text`, which must be next.
    pub(super) fn expect(&mut self, text: &str) -> Scan<()> {
        if self.take(text) { Ok(()) } else { Err(NotUnderstood) }
    }

    /// Reads a part of the script that is within another one.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Scan<T>) -> Scan<T> {
        if self.depth == MAX_DEPTH {
            return Err(NotUnderstood);
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }
}

/// Bytes that end a word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>')
}
