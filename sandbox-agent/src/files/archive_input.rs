//! The bytes of an archive as they come, plain, whatever they were compressed with.
//!
//! Whoever reads may be held to so many bytes for a while: the tar library keeps what stands before a member in memory,
//! however long that says it is.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

/// Largest window a zstd frame may ask memory for, as a power of two: 32 MiB.
const ZSTD_WINDOW_LOG: u32 = 25;

/// How many bytes may be read; none is any number.
pub(super) type Allowance = Rc<Cell<Option<u64>>>;

/// The archive's bytes, whether they have come to an end, and how many may be read now where that is bounded.
pub(super) struct Input<'a> {
    input: Box<dyn Read + 'a>,
    at_end: bool,
    allowance: Allowance,
}

impl<'a> Input<'a> {
    /// Finds out how an archive is compressed; with what is read of it, how many bytes may be read from now on.
    pub(super) fn decompressed(input: impl BufRead + 'a) -> io::Result<(Self, Allowance)> {
        let allowance = Allowance::default();
        let input = Self { input: decompressed(input)?, at_end: false, allowance: Rc::clone(&allowance) };
        Ok((input, allowance))
    }

    /// Whether somebody has read up to the end.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.allowance.get();
        if allowed == Some(0) {
            return Err(io::Error::other("what stands before a member is too long"));
        }
        let length = allowed.map_or(buffer.len(), |allowed| buffer.len().min(allowed as usize));
        let read = self.input.read(&mut buffer[..length])?;
        self.allowance.set(allowed.map(|allowed| allowed - read as u64));
        self.at_end |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

/// Finds out how the archive is compressed, by its first bytes.
fn decompressed<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let start = input.fill_buf()?;
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::Decoder::with_buffer(input)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => Box::new(input),
    })
}
