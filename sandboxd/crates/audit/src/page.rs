//! Reads the record from its end.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;

use sandboxd_model::limits;

pub use crate::line::Content;
use crate::line::Line;
use crate::{Directory, Error};

/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 256 * 1024;

/// A place between two lines. As text, the number of a file and the bytes before the place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    file: u64,
    offset: u64,
}

/// Lines of the record, newest first.
#[derive(Debug)]
pub struct Page {
    /// The lines.
    pub lines: Vec<Content>,
    /// Where the next page begins. `None` if there is nothing before.
    pub next: Option<Cursor>,
}

/// The text is not a cursor.
#[derive(Debug, thiserror::Error)]
#[error("is not the cursor of a page")]
pub struct BadCursor;

/// Reads up to `limit` lines for which `is_wanted` holds, before `before` or from the end. Reads at most
/// [`limits::MAX_AUDIT_SCAN_BYTES`], so a page may have fewer lines although there are more. Lines are not verified, and bytes
/// that are not a line are skipped.
pub fn page(
    path: &Path,
    before: Option<Cursor>,
    limit: usize,
    is_wanted: impl Fn(&Content) -> bool,
) -> Result<Page, Error> {
    let dir = Directory::open(path)?;
    let mut files = dir.numbers()?;
    files.retain(|number| before.is_none_or(|before| *number <= before.file));
    let (mut lines, mut left) = (Vec::new(), limits::MAX_AUDIT_SCAN_BYTES);
    let mut next = None;
    while let Some(number) = files.pop() {
        let file = match dir.read(number) {
            // A running daemon may have removed it as the oldest.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            file => file?,
        };
        let fail = |source| dir.error_at(number, source);
        let len = file.metadata().map_err(fail)?.len();
        let from = before.filter(|before| before.file == number).map_or(len, |before| before.offset.min(len));
        let mut reader = Backwards { file, start: from, held: Vec::new(), is_end: from == len };
        while lines.len() < limit && left > 0 {
            let Some(line) = reader.line(&mut left).map_err(fail)? else { break };
            let content = Line::parse(&line).map(|line| line.content);
            lines.extend(content.filter(|content| is_wanted(content)));
        }
        let offset = reader.offset();
        next = match (offset, files.is_empty()) {
            (0, true) => None,
            _ => Some(Cursor { file: number, offset }),
        };
        if lines.len() >= limit || left == 0 {
            break;
        }
    }
    Ok(Page { lines, next })
}

/// Reads the lines of a file from its end.
struct Backwards {
    file: File,
    /// Where the bytes that are held begin.
    start: u64,
    held: Vec<u8>,
    /// Whether nothing was read yet and bytes without a line feed may follow the last line.
    is_end: bool,
}

impl Backwards {
    /// The line before those that were returned. `None` at the beginning.
    fn line(&mut self, left: &mut u64) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.is_end
                && let Some(at) = self.held.iter().rposition(|byte| *byte == b'\n')
            {
                self.held.truncate(at + 1);
                self.is_end = false;
            }
            let whole = self.held.strip_suffix(b"\n").filter(|_| !self.is_end);
            if let Some(whole) = whole {
                let at = whole.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
                if let Some(at) = at.or((self.start == 0).then_some(0)) {
                    let line = whole[at..].to_vec();
                    self.held.truncate(at);
                    return Ok(Some(line));
                }
            }
            if self.start == 0 || *left == 0 {
                return Ok(None);
            }
            let size = CHUNK_BYTES.min(self.start);
            let mut chunk = vec![0; size as usize];
            self.file.read_exact_at(&mut chunk, self.start - size)?;
            chunk.append(&mut self.held);
            self.held = chunk;
            self.start -= size;
            *left = left.saturating_sub(size);
        }
    }

    /// Bytes of the file before the lines that were returned.
    fn offset(&self) -> u64 {
        if self.is_end { 0 } else { self.start + self.held.len() as u64 }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.file, self.offset)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (file, offset) = text.split_once('.').ok_or(BadCursor)?;
        let number = |text: &str| text.parse().map_err(|_| BadCursor);
        let cursor = Self { file: number(file)?, offset: number(offset)? };
        // Another spelling of the same place is not a cursor.
        if cursor.to_string() == text { Ok(cursor) } else { Err(BadCursor) }
    }
}
