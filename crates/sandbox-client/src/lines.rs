//! Splits a byte stream into lines of limited length.

use bytes::{Bytes, BytesMut};

use crate::Error;

/// Maximum length of a line: the largest record, with every byte escaped, and its base64.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Received bytes, and the position up to which they contain no newline.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: BytesMut,
    searched: usize,
    max_bytes: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(MAX_LINE_BYTES)
    }
}

impl Lines {
    /// Lines of at most `max_bytes`.
    pub(crate) fn with_limit(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, max_bytes }
    }

    pub(crate) fn push(&mut self, bytes: &Bytes) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its newline.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            Some(offset) => {
                let mut line = self.buffer.split_to(self.searched + offset + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                Ok(Some(line.freeze()))
            }
            None if self.buffer.len() > self.max_bytes => Err(Error::LineTooLong { limit: self.max_bytes }),
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_reassembled_however_they_are_split() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for byte in b"one\ntwo\n\nthree" {
            lines.push(&Bytes::copy_from_slice(&[*byte]));
            while let Some(line) = lines.next().unwrap() {
                found.push(line);
            }
        }
        assert_eq!(found, [&b"one"[..], b"two", b""]);
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let mut lines = Lines::default();
        lines.push(&Bytes::from(vec![b'x'; MAX_LINE_BYTES + 1]));
        assert!(matches!(lines.next(), Err(Error::LineTooLong { .. })));
    }
}
