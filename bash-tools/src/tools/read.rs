//! Reads as many lines of a file as fit, and adds a notice about the rest.

use std::fmt;

use super::{Error, ReadFileInput, Result};
use crate::provider::{Provider, SandboxId};

/// Number of bytes per read.
const PART_BYTES: usize = 256 * 1024;

/// Maximum number of bytes that are read to find the requested lines.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Requested lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    /// First line, counted from 1.
    first: u64,
    limit: u64,
    max_chars: usize,
}

/// Complete lines, or the beginning of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// Number of the first line, counted from 1.
    pub(super) first: u64,
    pub(super) text: String,
    /// Omitted part, if any.
    pub(super) rest: Option<Rest>,
}

/// Omitted part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rest {
    /// Lines after the requested ones, from this one on.
    More { next: u64 },
    /// Requested lines that did not fit, from this one on.
    Cut { omitted: Omitted, next: u64 },
    /// The rest of this line, and possibly more.
    CutInLine { omitted: Omitted, line: u64 },
}

/// Length of the omitted part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Omitted {
    chars: usize,
    /// Whether the part may be longer.
    is_minimum: bool,
}

/// What was read so far.
struct Found {
    /// Text of the requested lines.
    bytes: Vec<u8>,
    /// Line of the next byte, counted from 1.
    line: u64,
    ends_in_line: bool,
}

impl Lines {
    pub(super) fn new(input: &ReadFileInput, max_chars: usize) -> Result<Self> {
        let (first, limit) = (input.offset.unwrap_or(1), input.limit.unwrap_or(u64::MAX));
        for (field, value) in [("offset", first), ("limit", limit)] {
            if value == 0 {
                return Err(Error::BadInput { field, problem: "must be at least 1".to_owned() });
            }
        }
        Ok(Self { first, limit, max_chars })
    }

    pub(super) async fn read(
        &self,
        provider: &dyn Provider,
        sandbox: SandboxId,
        path: &str,
    ) -> Result<Excerpt> {
        let mut found = Found { bytes: Vec::new(), line: 1, ends_in_line: false };
        let mut at = 0;
        let is_all = loop {
            let part = provider.read_file(&sandbox, path, at, PART_BYTES).await?.bytes;
            if at == 0 && part.contains(&0) {
                return Err(Error::NotText { path: path.to_owned() });
            }
            at += part.len() as u64;
            let is_enough = self.take(&mut found, &part);
            if is_enough || part.len() < PART_BYTES {
                break !is_enough;
            }
            if at >= MAX_BYTES {
                let problem = format!("is more than {MAX_BYTES} bytes into {path}: use bash (`sed -n`)");
                return Err(Error::BadInput { field: "offset", problem });
            }
        };
        let lines = if found.ends_in_line { found.line } else { found.line - 1 };
        if is_all && self.first > lines.max(1) {
            return Err(Error::NoLine { path: path.to_owned(), offset: self.first, lines });
        }
        Ok(self.excerpt(&found, is_all))
    }

    /// Adds a part. Returns whether no further part is needed.
    fn take(&self, found: &mut Found, part: &[u8]) -> bool {
        let end = self.first.saturating_add(self.limit);
        for line in part.split_inclusive(|byte| *byte == b'\n') {
            if found.line >= end || found.bytes.len() > self.max_chars.saturating_mul(4) {
                return true;
            }
            if found.line >= self.first {
                found.bytes.extend_from_slice(line);
            }
            found.ends_in_line = !line.ends_with(b"\n");
            found.line += u64::from(!found.ends_in_line);
        }
        found.bytes.len() > self.max_chars.saturating_mul(4)
    }

    fn excerpt(&self, found: &Found, is_all: bool) -> Excerpt {
        let text = String::from_utf8_lossy(&found.bytes);
        let Some((cut, _)) = text.char_indices().nth(self.max_chars) else {
            let rest = (!is_all).then_some(Rest::More { next: found.line });
            return Excerpt { first: self.first, text: text.into_owned(), rest };
        };
        // Complete lines, if at least one fits.
        let end = text[..cut].rfind('\n').map_or(cut, |at| at + 1);
        let shown = &text[..end];
        let next = self.first + shown.matches('\n').count() as u64;
        let omitted = Omitted { chars: text[end..].chars().count(), is_minimum: !is_all };
        let rest = if shown.ends_with('\n') {
            Rest::Cut { omitted, next }
        } else {
            Rest::CutInLine { omitted, line: next }
        };
        Excerpt { first: self.first, text: shown.to_owned(), rest: Some(rest) }
    }
}

/// The text, followed by a notice about the omitted part.
impl From<Excerpt> for String {
    fn from(Excerpt { text, rest, .. }: Excerpt) -> Self {
        match rest {
            None => text,
            Some(rest) => format!("{text}\n{rest}"),
        }
    }
}

/// Notice that says how to read the rest with `readFile`.
impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More { next } => write!(f, "[more lines follow: continue with offset {next}]"),
            Self::Cut { omitted, next } => {
                write!(f, "[file truncated: {omitted} are not shown; continue with offset {next}]")
            }
            Self::CutInLine { omitted, line } => write!(
                f,
                "[file truncated: {omitted} are not shown; line {line} is longer than a result may be: use bash \
                 (`cut -c`)]"
            ),
        }
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.is_minimum { "at least " } else { "" };
        write!(f, "{least}{} characters of the requested text", self.chars)
    }
}
