//! Decompresses the bytes of an archive while they arrive.
//!
//! Data after a compressed archive is handled as by tar(1) with gzip(1) and zstd(1). Further members and frames
//! belong to the archive, including skippable ones. Zeros after gzip are padding. Anything else is an error.
//!
//! The number of bytes that may be read can be limited temporarily. The tar library keeps the extended headers of a
//! member in memory, whatever length they claim.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

/// Maximum window of a zstd frame as a power of two: 32 MiB.
const ZSTD_WINDOW_LOG: u32 = 25;

/// Maximum number of zeros after gzip's last member, which a device or a tape fills its last block with.
const MAX_PADDING_BYTES: usize = 1024 * 1024;

/// Number of bytes that may be read. `None` means unlimited.
pub(super) type Allowance = Rc<Cell<Option<u64>>>;

/// The archive's bytes, whether they have ended, and how many may be read if that is limited.
pub(super) struct Input<'a> {
    input: Box<dyn Read + 'a>,
    at_end: bool,
    allowance: Allowance,
}

impl<'a> Input<'a> {
    /// Detects the compression of an archive. Also returns the handle that limits how many bytes may be read.
    pub(super) fn decompressed(input: impl BufRead + 'a) -> io::Result<(Self, Allowance)> {
        let allowance = Allowance::default();
        let input = Self { input: decompressed(input)?, at_end: false, allowance: Rc::clone(&allowance) };
        Ok((input, allowance))
    }

    /// Whether the end has been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at_end
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let allowed = self.allowance.get();
        if allowed == Some(0) {
            return Err(io::Error::other("the headers before a member are too long"));
        }
        let length = allowed.map_or(buffer.len(), |allowed| buffer.len().min(allowed as usize));
        let read = self.input.read(&mut buffer[..length])?;
        self.allowance.set(allowed.map(|allowed| allowed - read as u64));
        self.at_end |= read == 0 && !buffer.is_empty();
        Ok(read)
    }
}

/// The first bytes of a zstd frame (RFC 8878 section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Detects the compression of the archive by its first bytes.
fn decompressed<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    // The bytes may arrive one by one.
    let mut start = Vec::new();
    input.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start)?;
    let kind = start.clone();
    let input = io::Cursor::new(start).chain(input);
    Ok(match &kind[..] {
        [0x1f, 0x8b, ..] => Box::new(Gzip::Member(GzDecoder::new(input))),
        kind if kind == ZSTD_MAGIC => {
            let mut decoder = zstd::Decoder::with_buffer(input)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => Box::new(input),
    })
}

/// The members of gzip data, one after the other (RFC 1952 section 2.2).
enum Gzip<R> {
    Member(GzDecoder<R>),
    Ended,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Self::Member(member) = self {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Self::Member(member) = std::mem::replace(self, Self::Ended) else { break };
            let mut input = member.into_inner();
            let padding = skip_zeros(&mut input)?;
            let is_at_end = input.fill_buf()?.is_empty();
            if padding > 0 && !is_at_end {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "something follows the gzip data"));
            }
            if !is_at_end {
                *self = Self::Member(GzDecoder::new(input));
            }
        }
        Ok(0)
    }
}

/// Skips zeros, and returns how many there were.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<usize> {
    let mut skipped = 0;
    loop {
        let bytes = input.fill_buf()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let is_over = zeros < bytes.len() || bytes.is_empty();
        input.consume(zeros);
        skipped += zeros;
        if skipped > MAX_PADDING_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many zeros follow the gzip data"));
        }
        if is_over {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    /// Returns one byte per read.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn plain(parts: &[&[u8]]) -> io::Result<String> {
        let packed = parts.concat();
        let read = |input: &mut dyn Read| {
            let (mut input, _) = Input::decompressed(BufReader::new(input))?;
            let mut text = String::new();
            input.read_to_string(&mut text).map(|_| text)
        };
        let (whole, trickled) = (read(&mut &packed[..]), read(&mut Trickle(&packed)));
        assert_eq!(
            whole.as_ref().ok(),
            trickled.as_ref().ok(),
            "the result depends on the sizes of the reads"
        );
        whole
    }

    /// A frame without content (RFC 8878 section 3.1.2).
    const SKIPPABLE: &[u8] = b"\x50\x2a\x4d\x18\x04\0\0\0abcd";

    #[test]
    fn members_and_frames_form_one_archive() {
        let zeros = [0; 3000];
        for parts in [
            [&gzip(b"one")[..], &gzip(b" two"), b""],
            [&gzip(b"one two")[..], &zeros, b""],
            [&gzip(b"one")[..], &gzip(b" two"), &zeros],
            [&zstd(b"one")[..], &zstd(b" two"), b""],
            [&zstd(b"one")[..], SKIPPABLE, &zstd(b" two")],
            [&zstd(b"one two")[..], SKIPPABLE, b""],
            [&b"one"[..], b" two", b""],
        ] {
            assert_eq!(plain(&parts).unwrap(), "one two", "{parts:?}");
        }
        // tar(1) does not accept this as an archive either, because it could belong to any format.
        assert_eq!(plain(&[SKIPPABLE, b""]).unwrap().as_bytes(), SKIPPABLE);
    }

    #[test]
    fn other_trailing_data_is_an_error() {
        let zeros = vec![0; MAX_PADDING_BYTES + 1];
        for parts in [
            [&gzip(b"one")[..], b"garbage"],
            [&gzip(b"one")[..], b"\x1f\x8b\x08garb"],
            [&gzip(b"one")[..], b"\0\0garbage"],
            [&gzip(b"one")[..], &zeros],
            [&zstd(b"one")[..], b"garbage"],
            [&zstd(b"one")[..], b"\0\0\0\0"],
            [&gzip(b"one")[..10], b""],
        ] {
            assert!(plain(&parts).is_err(), "{:?}", parts[1].get(..10));
        }
    }
}
