//! A part of a text file, with the size and the number of lines of the whole.

use futures::StreamExt;
use image::ImageFormat;
use sandbox_api::SandboxId;
use sandbox_client::FileContent;

use crate::Error;
use crate::files::{MAX_FILE_CHARS, MAX_SCAN_BYTES};
use crate::images;
use crate::toolbox::Toolbox;

/// Bytes of the longest UTF-8 character that may come before a position within it.
const MAX_REST_BYTES: u64 = 3;

/// Where a part begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    /// At a line, counted from 1.
    Line(u64),
    /// At a byte, counted from 0, or at the character that has it.
    Byte(u64),
}

/// A file that was opened.
pub(super) enum Opened {
    Text(Page),
    /// An image that hosts can show: its first bytes, and the rest.
    Image {
        format: ImageFormat,
        begin: Vec<u8>,
        rest: FileContent,
    },
    /// Anything else.
    Binary {
        bytes: u64,
    },
}

/// A part of a text file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) text: String,
    /// Number of the first line of the text.
    pub(super) first_line: u64,
    /// Number of lines of the text, including one that is cut.
    pub(super) lines: u64,
    /// Whether the end of the last line is missing, because the text is as long as a result may be.
    pub(super) is_cut_in_line: bool,
    /// Whether requested lines are missing for the same reason.
    pub(super) is_cut: bool,
    /// Whether the file has more than this, requested or not.
    pub(super) has_more: bool,
    /// Position of the next byte of the file.
    pub(super) next_byte: u64,
    /// Number of line feeds in the file, if it is short enough to count them.
    pub(super) line_feeds: Option<u64>,
    /// Whether the file ends within a line.
    pub(super) ends_in_line: bool,
    /// Size of the file in bytes.
    pub(super) file_bytes: u64,
}

impl Toolbox {
    /// Reads at most `limit` lines of a file.
    pub(super) async fn read_page(
        &self,
        sandbox: &SandboxId,
        path: &str,
        start: Start,
        limit: u64,
    ) -> Result<Opened, Error> {
        let mut content =
            self.client.get_file_without_secrets(sandbox, path).await.map_err(Error::about(path))?;
        let file_bytes = content.total_bytes().unwrap_or(0);
        let mut reader = Reader::new(start, limit);
        while let Some(piece) = content.next().await {
            let piece = piece?;
            if reader.position == 0
                && let Some(format) = images::format_of(&piece)
            {
                return Ok(Opened::Image { format, begin: piece.into(), rest: content });
            }
            reader.add(&piece);
            if reader.position > MAX_SCAN_BYTES {
                if !reader.is_satisfied() {
                    return Err(too_far());
                }
                reader.is_counted = false;
                break;
            }
        }
        Ok(reader.finish(file_bytes).map_or(Opened::Binary { bytes: file_bytes }, Opened::Text))
    }
}

/// A file may be much longer than its disk usage.
fn too_far() -> Error {
    let problem = format!("is more than {MAX_SCAN_BYTES} bytes into the file: use a command (`sed -n`)");
    Error::Argument { field: "offset", problem }
}

/// Collects a part of a file from its pieces.
struct Reader {
    start: Start,
    limit: u64,
    /// Number of bytes so far.
    position: u64,
    /// Number of line feeds so far.
    line_feeds: u64,
    ends_in_line: bool,
    kept: Vec<u8>,
    /// Position and line of the first kept byte.
    kept_from: (u64, u64),
    /// Line feeds in the kept bytes.
    kept_line_feeds: u64,
    /// Whether wanted bytes were not kept.
    is_full: bool,
    /// Whether line feeds are counted to the end.
    is_counted: bool,
}

impl Reader {
    fn new(start: Start, limit: u64) -> Self {
        Self {
            start,
            limit,
            position: 0,
            line_feeds: 0,
            ends_in_line: false,
            kept: Vec::new(),
            kept_from: (0, 1),
            kept_line_feeds: 0,
            is_full: false,
            is_counted: true,
        }
    }

    fn add(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.keep(part);
            self.position += part.len() as u64;
            self.ends_in_line = !part.ends_with(b"\n");
            self.line_feeds += u64::from(!self.ends_in_line);
        }
    }

    /// Keeps a line, or a part of one, if it is wanted.
    fn keep(&mut self, part: &[u8]) {
        let skipped = match self.start {
            Start::Line(first) if self.line_feeds + 1 < first => return,
            Start::Line(_) => 0,
            Start::Byte(byte) => {
                let first = byte.saturating_sub(MAX_REST_BYTES);
                usize::try_from(first.saturating_sub(self.position)).unwrap_or(usize::MAX)
            }
        };
        if skipped >= part.len() || self.kept_line_feeds >= self.limit {
            return;
        }
        if self.kept.len() > MAX_FILE_CHARS * 4 {
            self.is_full = true;
            return;
        }
        if self.kept.is_empty() {
            self.kept_from = (self.position + skipped as u64, self.line_feeds + 1);
        }
        self.kept.extend_from_slice(&part[skipped..]);
        self.kept_line_feeds += u64::from(part.ends_with(b"\n"));
    }

    fn is_satisfied(&self) -> bool {
        self.is_full || self.kept_line_feeds >= self.limit
    }

    /// Returns the part, or nothing if it is not text.
    fn finish(mut self, file_bytes: u64) -> Option<Page> {
        // Without anything kept, everything was read.
        let mut from = if self.kept.is_empty() { self.position } else { self.kept_from.0 };
        if let Start::Byte(byte) = self.start {
            let begin = begin_of_character(&self.kept, byte.saturating_sub(from));
            from += begin as u64;
            self.kept.drain(..begin);
        }
        let valid = match std::str::from_utf8(&self.kept) {
            Ok(text) => text,
            // The last piece that was kept may end within a character.
            Err(error) if error.error_len().is_none() && self.is_full => {
                std::str::from_utf8(&self.kept[..error.valid_up_to()]).ok()?
            }
            Err(_) => return None,
        };
        let cut = valid.char_indices().nth(MAX_FILE_CHARS).map(|(end, _)| end);
        let text = &valid[..cut.unwrap_or(valid.len())];
        let is_cut = cut.is_some() || self.is_full;
        let next_byte = from + text.len() as u64;
        let ends_in_line = !text.is_empty() && !text.ends_with('\n');
        Some(Page {
            first_line: self.kept_from.1,
            lines: text.matches('\n').count() as u64 + u64::from(ends_in_line),
            is_cut_in_line: is_cut && ends_in_line,
            is_cut,
            // In what is read, secret values are replaced, so it does not have the length of the file.
            has_more: next_byte < self.position || !self.is_counted,
            next_byte,
            line_feeds: self.is_counted.then_some(self.line_feeds),
            ends_in_line: self.ends_in_line,
            file_bytes,
            text: text.to_owned(),
        })
    }
}

/// Position of the first byte of the character that has the byte `at`.
fn begin_of_character(bytes: &[u8], at: u64) -> usize {
    let mut at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    while at > 0 && is_continuation(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], start: Start, limit: u64) -> Option<Page> {
        let mut reader = Reader::new(start, limit);
        text.chunks(7).for_each(|piece| reader.add(piece));
        reader.finish(text.len() as u64)
    }

    #[test]
    fn lines_are_numbered_and_counted() {
        let page = read(b"l1\nl2\nl3\nl4", Start::Line(2), 2).unwrap();
        assert_eq!((page.text.as_str(), page.first_line, page.lines), ("l2\nl3\n", 2, 2));
        assert_eq!((page.line_feeds, page.ends_in_line, page.next_byte), (Some(3), true, 9));
        assert!(page.has_more && !page.is_cut);
        let none = read(b"a\n", Start::Line(9), 2).unwrap();
        assert_eq!((none.text.as_str(), none.lines), ("", 0));
    }

    #[test]
    fn a_position_within_a_character_moves_to_its_begin() {
        for byte in 1..4 {
            assert_eq!(read("a€b".as_bytes(), Start::Byte(byte), 9).unwrap().text, "€b");
        }
        assert_eq!(read("a€b".as_bytes(), Start::Byte(4), 9).unwrap().text, "b");
        assert_eq!(read(b"a", Start::Byte(9), 9).unwrap().text, "");
    }

    #[test]
    fn the_parts_of_a_long_line_are_its_text() {
        let text = "é€x".repeat(40_000);
        let (mut all, mut next) = (String::new(), 0);
        loop {
            let page = read(text.as_bytes(), Start::Byte(next), u64::MAX).unwrap();
            next = page.next_byte;
            all += &page.text;
            if !page.is_cut {
                break;
            }
        }
        assert!(all == text);
    }

    #[test]
    fn other_bytes_than_utf_8_are_not_text() {
        assert_eq!(read(b"\xff\xfe\0\x01", Start::Line(1), 9), None);
        assert_eq!(read("é".as_bytes().split_at(1).0, Start::Line(1), 9), None);
    }
}
