//! Cuts a byte stream into records that end between characters.
//!
//! Holds back at most three bytes: the start of a UTF-8 character that is not complete yet. Bytes that can never
//! become a character pass at once.

use bytes::{Bytes, BytesMut};

/// The incomplete character at the end of a stream's data so far.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    held: Vec<u8>,
}

impl Cutter {
    /// Returns the held bytes and `read` up to the last complete character, or `None` if all of it is one incomplete
    /// character.
    pub(crate) fn cut(&mut self, read: &[u8]) -> Option<Bytes> {
        let keep = incomplete_tail(read);
        if self.held.is_empty() {
            let (whole, tail) = read.split_at(read.len() - keep);
            self.held.extend_from_slice(tail);
            return (!whole.is_empty()).then(|| Bytes::copy_from_slice(whole));
        }
        let mut all = BytesMut::with_capacity(self.held.len() + read.len());
        all.extend_from_slice(&self.held);
        all.extend_from_slice(read);
        let keep = incomplete_tail(&all);
        self.held.clear();
        self.held.extend_from_slice(&all[all.len() - keep..]);
        all.truncate(all.len() - keep);
        (!all.is_empty()).then(|| all.freeze())
    }

    /// Returns the bytes that were held back. For the end of the stream.
    pub(crate) fn flush(&mut self) -> Option<Bytes> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| Bytes::from(held))
    }
}

/// Length of the incomplete character at the end of `bytes`: 0 to 3.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        let tail = &bytes[bytes.len() - back..];
        return if back < wanted && may_grow(tail) { back } else { 0 };
    }
    0
}

/// Whether more bytes could complete `tail` to a character.
fn may_grow(tail: &[u8]) -> bool {
    std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_all(reads: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut cutter = Cutter::default();
        let mut records: Vec<Vec<u8>> =
            reads.iter().filter_map(|read| cutter.cut(read)).map(|bytes| bytes.to_vec()).collect();
        records.extend(cutter.flush().map(|bytes| bytes.to_vec()));
        records
    }

    #[test]
    fn a_character_split_over_reads_stays_whole() {
        let text = "aé€😀z";
        for at in 1..text.len() {
            let (left, right) = text.as_bytes().split_at(at);
            let records = cut_all(&[left, right]);
            for record in &records {
                assert!(std::str::from_utf8(record).is_ok(), "cut at {at}: {record:?}");
            }
            assert_eq!(records.concat(), text.as_bytes());
        }
    }

    #[test]
    fn a_character_read_byte_by_byte_is_one_record() {
        let bytes: Vec<&[u8]> = "😀".as_bytes().chunks(1).collect();
        assert_eq!(cut_all(&bytes), ["😀".as_bytes()]);
    }

    #[test]
    fn invalid_bytes_pass_at_once() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.cut(&[0xff, 0x80]).as_deref(), Some(&[0xff, 0x80][..]));
        assert_eq!(cutter.cut(&[0x80]).as_deref(), Some(&[0x80][..]));
        assert_eq!(cutter.flush(), None);
    }

    #[test]
    fn an_incomplete_character_at_the_end_is_not_lost() {
        assert_eq!(cut_all(&[b"a\xe2\x82"]), [b"a".to_vec(), b"\xe2\x82".to_vec()]);
    }
}
