//! Splits the output of a server into messages.

/// Maximum length of a message from a server, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// A line is longer than [`MAX_LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message of the server is longer than {MAX_LINE_BYTES} bytes")]
pub(super) struct TooLong;

/// Output without its last line feed.
#[derive(Debug, Default)]
pub(super) struct Lines {
    part: Vec<u8>,
}

impl Lines {
    /// Adds output. Calls `each` with every line that it completes, without the line feed. Skips empty lines.
    pub(super) fn push(&mut self, output: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), TooLong> {
        let mut rest = output;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end])?;
            let line = self.part.trim_ascii();
            if !line.is_empty() {
                each(line);
            }
            self.part.clear();
            rest = &rest[end + 1..];
        }
        self.extend(rest)
    }

    fn extend(&mut self, output: &[u8]) -> Result<(), TooLong> {
        if self.part.len() + output.len() > MAX_LINE_BYTES {
            return Err(TooLong);
        }
        self.part.extend_from_slice(output);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_however_they_arrive() {
        for piece in [1, 3, 100] {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for part in b"one\r\n\n \ntwo\nthree".chunks(piece) {
                lines.push(part, |line| found.push(line.to_vec())).unwrap();
            }
            assert_eq!(found, [&b"one"[..], b"two"], "{piece}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_an_error() {
        let mut lines = Lines::default();
        let part = vec![b'x'; MAX_LINE_BYTES];
        lines.push(&part, |_| unreachable!()).unwrap();
        assert_eq!(lines.push(b"x", |_| unreachable!()), Err(TooLong));
    }
}
