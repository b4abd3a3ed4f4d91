//! The form of a line and its authentication.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac as _};
use jiff::Timestamp;
use sandboxd_model::limits;
use serde::Deserialize;
use sha2::Sha256;

use crate::Entry;

/// Bytes of a MAC.
const MAC_BYTES: usize = 32;

/// What precedes the MAC of a line.
const BEFORE_MAC: &[u8] = b",\"mac\":\"";

/// What follows the MAC of a line.
const AFTER_MAC: &[u8] = b"\"}";

/// Bytes from the comma before the MAC to the end of a line, without the line feed.
const END_BYTES: usize = BEFORE_MAC.len() + 2 * MAC_BYTES + AFTER_MAC.len();

/// The authentication of a line and of all lines before it. As text, 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mac([u8; MAC_BYTES]);

/// The secret of an instance that authenticates lines.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// Sequence number and MAC of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Sequence number of the line. The first line has 1, so it is also the number of lines so far.
    pub seq: u64,
    /// Its MAC.
    pub mac: Mac,
}

/// The content of a line.
#[derive(Debug, Clone, Deserialize)]
pub struct Content {
    /// Its sequence number.
    pub seq: u64,
    /// When the act was recorded.
    pub at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

/// A line as it was read, before any check.
pub(crate) struct Line<'a> {
    /// The bytes that the MAC authenticates.
    pub(crate) body: &'a [u8],
    pub(crate) mac: Mac,
    pub(crate) content: Content,
}

impl Key {
    /// The key with these bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The MAC of a line after one with the MAC `previous`.
    pub(crate) fn mac(&self, previous: &Mac, body: &[u8]) -> Mac {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(&previous.0);
        mac.update(body);
        Mac(mac.finalize().into_bytes().into())
    }

    /// A line after `previous`, with its line feed, and its head.
    pub(crate) fn seal(&self, previous: &Head, at: Timestamp, entry: &Entry) -> (Vec<u8>, Head) {
        let seq = previous.seq + 1;
        let mut line = format!("{{\"seq\":{seq},\"at\":\"{at:.3}\",").into_bytes();
        let fields = serde_json::to_vec(entry).expect("an entry has no map with keys other than strings");
        match fields.len() > limits::MAX_AUDIT_LINE_BYTES {
            false => line.extend_from_slice(&fields[1..fields.len() - 1]),
            true => {
                let short = Entry { details: Default::default(), ..entry.clone() }.with("tooLong", true);
                let fields = serde_json::to_vec(&short).expect("as above");
                line.extend_from_slice(&fields[1..fields.len() - 1]);
            }
        }
        let mac = self.mac(&previous.mac, &line);
        line.extend_from_slice(BEFORE_MAC);
        line.extend_from_slice(mac.to_string().as_bytes());
        line.extend_from_slice(AFTER_MAC);
        line.push(b'\n');
        (line, Head { seq, mac })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Head {
    /// What precedes the first line.
    pub const NONE: Self = Self { seq: 0, mac: Mac::ZERO };
}

impl<'a> Line<'a> {
    /// Reads a line without its line feed. `None` if it does not have the form of one.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let (body, end) = line.split_at_checked(line.len().checked_sub(END_BYTES)?)?;
        let mac = end.strip_prefix(BEFORE_MAC)?.strip_suffix(AFTER_MAC)?;
        let mac = std::str::from_utf8(mac).ok()?.parse().ok()?;
        let content = serde_json::from_slice(line).ok()?;
        Some(Self { body, mac, content })
    }

    pub(crate) fn head(&self) -> Head {
        Head { seq: self.content.seq, mac: self.mac }
    }
}

impl Mac {
    /// What precedes the first line.
    pub const ZERO: Self = Self([0; MAC_BYTES]);
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a MAC.
#[derive(Debug, thiserror::Error)]
#[error("is not {} lower-case hexadecimal digits", 2 * MAC_BYTES)]
pub struct BadMac;

impl FromStr for Mac {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, BadMac> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BadMac),
        };
        let digits = text.as_bytes();
        if digits.len() != 2 * MAC_BYTES {
            return Err(BadMac);
        }
        let mut mac = [0; MAC_BYTES];
        for (byte, pair) in mac.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(mac))
    }
}
