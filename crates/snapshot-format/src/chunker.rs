//! Where the bytes of a file are cut.
//!
//! FastCDC (Xia et al., 2020) cuts where a rolling hash of the content has a certain value. So an insertion at the
//! start of a file moves the cuts with the content, and the chunks after it keep their names.

use std::io::{self, Read};

use fastcdc::v2020::FastCDC;

/// Minimum size of a chunk in bytes, except for the last one of a file.
pub const MIN_CHUNK_BYTES: usize = 16 * 1024;

/// Usual size of a chunk in bytes.
pub const AVERAGE_CHUNK_BYTES: usize = 64 * 1024;

/// Maximum size of a chunk in bytes.
pub const MAX_CHUNK_BYTES: usize = 256 * 1024;

/// Bytes that are read at a time. A cut is only known with the next [`MAX_CHUNK_BYTES`] in memory.
const BUFFER_BYTES: usize = 4 * MAX_CHUNK_BYTES;

/// Cuts the bytes of one file after the other, and keeps its buffer between them.
#[derive(Debug)]
pub struct Chunker {
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read and not cut off yet.
    start: usize,
    end: usize,
}

impl Default for Chunker {
    fn default() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }
}

impl Chunker {
    /// Reads `source` to its end, or `limit` bytes of it, and passes the chunks to `each`. Returns the number of bytes.
    pub fn cut<E: From<io::Error>>(
        &mut self,
        source: impl Read,
        limit: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut source = source.take(limit);
        (self.start, self.end) = (0, 0);
        let mut total = 0;
        loop {
            let is_complete = self.fill(&mut source)?;
            while self.end - self.start >= MAX_CHUNK_BYTES || (is_complete && self.start < self.end) {
                let length = next_cut(&self.buffer[self.start..self.end]);
                each(&self.buffer[self.start..self.start + length])?;
                self.start += length;
                total += length as u64;
            }
            if is_complete {
                return Ok(total);
            }
        }
    }

    /// Reads until the buffer is full. Returns whether the source has ended.
    fn fill(&mut self, source: &mut impl Read) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < self.buffer.len() {
            match source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(true),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Length of the first chunk of `bytes`, which are either all that is left or at least [`MAX_CHUNK_BYTES`].
pub fn next_cut(bytes: &[u8]) -> usize {
    if bytes.len() <= MIN_CHUNK_BYTES {
        return bytes.len();
    }
    FastCDC::new(bytes, MIN_CHUNK_BYTES, AVERAGE_CHUNK_BYTES, MAX_CHUNK_BYTES).cut(0, bytes.len()).1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Bytes without a pattern (xorshift64).
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    fn chunks(source: impl Read, limit: u64) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        let each = |chunk: &[u8]| {
            chunks.push(chunk.to_vec());
            Ok::<(), io::Error>(())
        };
        Chunker::default().cut(source, limit, each).unwrap();
        chunks
    }

    /// Returns few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(4_097);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn the_chunks_are_the_bytes_and_within_the_bounds() {
        for length in [0, 1, MIN_CHUNK_BYTES, MAX_CHUNK_BYTES, BUFFER_BYTES, 3 * BUFFER_BYTES + 5] {
            let bytes = noise(length);
            let cut = chunks(&bytes[..], u64::MAX);
            assert_eq!(cut.concat(), bytes);
            let (last, others) = cut.split_last().map_or((0, &[][..]), |(last, others)| (last.len(), others));
            assert!(last <= MAX_CHUNK_BYTES);
            assert!(others.iter().all(|chunk| (MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&chunk.len())));
            assert_eq!(chunks(Slow(&bytes), u64::MAX), cut, "cuts do not depend on how the bytes arrive");
        }
    }

    #[test]
    fn an_insertion_changes_few_chunks() {
        let bytes = noise(4 << 20);
        let before: HashSet<Vec<u8>> = chunks(&bytes[..], u64::MAX).into_iter().collect();
        let after = chunks(&[&b"inserted"[..], &bytes].concat()[..], u64::MAX);
        assert!(after.iter().filter(|chunk| !before.contains(*chunk)).count() <= 2);
    }

    #[test]
    fn no_more_than_the_limit_is_read() {
        assert_eq!(chunks(std::io::repeat(0), 1 << 20).concat().len(), 1 << 20);
    }
}
