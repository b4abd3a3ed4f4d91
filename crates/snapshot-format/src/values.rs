//! The values that are kept with a sandbox by key, as bytes that are cut into chunks like those of a file.
//!
//! They are the sequence of the values in the order of their keys' bytes, each with its length in front of it (protobuf's
//! length-delimited encoding). So the same values are always the same bytes.

use std::io::{self, Read};

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

/// Maximum size of an encoded value in bytes.
pub const MAX_VALUE_BYTES: usize = 2 * 1024 * 1024;

/// A value with its key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Value {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub bytes: Bytes,
    /// When it was written, in milliseconds since the Unix epoch.
    #[prost(int64, tag = "3")]
    pub updated_at_ms: i64,
}

/// Why values were rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValues {
    /// A value is not as this crate encodes it.
    #[error("a value cannot be decoded: {0}")]
    Encoding(String),
    /// A value is larger than [`MAX_VALUE_BYTES`].
    #[error("a value of {0} bytes exceeds the limit of {MAX_VALUE_BYTES}")]
    TooLarge(u64),
    /// They end in the middle of a value.
    #[error("a value is cut off")]
    CutOff,
    /// A key that is not after the one before it.
    #[error("the key {0:?} is not in order")]
    Order(String),
}

/// Encodes values, which must be in the order of their keys. Takes one after the other, so that each can be freed.
#[derive(Debug)]
pub struct ValueEncoder<I> {
    values: I,
    encoded: Bytes,
}

impl<I: Iterator<Item = Value>> ValueEncoder<I> {
    /// Encodes these values.
    pub fn new(values: impl IntoIterator<IntoIter = I>) -> Self {
        Self { values: values.into_iter(), encoded: Bytes::new() }
    }
}

impl<I: Iterator<Item = Value>> Read for ValueEncoder<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.encoded.is_empty() {
            match self.values.next() {
                Some(value) => self.encoded = value.encode_length_delimited_to_vec().into(),
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.encoded.len());
        self.encoded.split_to(length).copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Decodes values from their chunks, and checks their order.
#[derive(Debug, Default)]
pub struct ValueDecoder {
    buffer: BytesMut,
    last: Option<String>,
}

impl ValueDecoder {
    /// Adds the next chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next value, or `None` if more chunks are needed.
    pub fn next_value(&mut self) -> Result<Option<Value>, InvalidValues> {
        let mut start = &self.buffer[..];
        let Ok(length) = prost::decode_length_delimiter(&mut start) else {
            // The length itself is cut off. Ten bytes always hold one.
            return if self.buffer.len() < 10 { Ok(None) } else { Err(InvalidValues::CutOff) };
        };
        if length > MAX_VALUE_BYTES {
            return Err(InvalidValues::TooLarge(length as u64));
        }
        if start.len() < length {
            return Ok(None);
        }
        let prefix = self.buffer.len() - start.len();
        self.buffer.advance(prefix);
        let encoded = self.buffer.split_to(length).freeze();
        let value = Value::decode(encoded).map_err(|error| InvalidValues::Encoding(error.to_string()))?;
        if self.last.as_ref().is_some_and(|last| value.key <= *last) {
            return Err(InvalidValues::Order(value.key));
        }
        self.last = Some(value.key.clone());
        Ok(Some(value))
    }

    /// Checks that the values are complete.
    pub fn finish(&self) -> Result<(), InvalidValues> {
        if self.buffer.is_empty() { Ok(()) } else { Err(InvalidValues::CutOff) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(key: &str, bytes: &'static [u8]) -> Value {
        Value { key: key.into(), bytes: Bytes::from_static(bytes), updated_at_ms: 7 }
    }

    fn encoded(values: &[Value]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ValueEncoder::new(values.to_vec()).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn decoded(bytes: &[u8], chunk_bytes: usize) -> Result<Vec<Value>, InvalidValues> {
        let mut decoder = ValueDecoder::default();
        let mut values = Vec::new();
        for chunk in bytes.chunks(chunk_bytes) {
            decoder.push(chunk);
            while let Some(value) = decoder.next_value()? {
                values.push(value);
            }
        }
        decoder.finish()?;
        Ok(values)
    }

    #[test]
    fn values_come_back_whatever_the_size_of_the_chunks() {
        let values = [value("a", b""), value("b", b"\0\xff"), value("ключ", b"text")];
        let bytes = encoded(&values);
        for chunk_bytes in 1..bytes.len() + 1 {
            assert_eq!(decoded(&bytes, chunk_bytes).unwrap(), values);
        }
        assert_eq!(encoded(&[]), b"");
        assert_eq!(decoded(b"", 1).unwrap(), []);
    }

    #[test]
    fn what_no_encoder_makes_is_rejected() {
        let twice = encoded(&[value("a", b"1"), value("a", b"2")]);
        assert_eq!(decoded(&twice, 99), Err(InvalidValues::Order("a".into())));
        let back = encoded(&[value("b", b""), value("a", b"")]);
        assert_eq!(decoded(&back, 99), Err(InvalidValues::Order("a".into())));
        let empty_twice = encoded(&[value("", b""), value("", b"")]);
        assert_eq!(decoded(&empty_twice, 99), Err(InvalidValues::Order(String::new())));
        let whole = encoded(&[value("a", b"1"), value("b", b"2")]);
        let ends: Vec<usize> = (1..whole.len()).filter(|end| decoded(&whole[..*end], 99).is_ok()).collect();
        assert_eq!(ends, [encoded(&[value("a", b"1")]).len()], "only between two values");
        let mut large = Vec::new();
        prost::encode_length_delimiter(MAX_VALUE_BYTES + 1, &mut large).unwrap();
        assert_eq!(decoded(&large, 99), Err(InvalidValues::TooLarge(MAX_VALUE_BYTES as u64 + 1)));
        assert_eq!(decoded(&[0xff; 20], 20), Err(InvalidValues::CutOff));
        assert!(matches!(decoded(&[2, 0x0a, 0xff], 9), Err(InvalidValues::Encoding(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected(bytes: Vec<u8>, chunk_bytes in 1_usize..50) {
            let _ = decoded(&bytes, chunk_bytes);
        }
    }
}
