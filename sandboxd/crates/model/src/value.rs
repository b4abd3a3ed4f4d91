//! The values that clients keep with a sandbox, by key.

use std::fmt;
use std::str::FromStr;

use crate::{FieldError, limits};

/// The key of a value: 1 to 256 bytes of UTF-8 without control characters. `.` and `..` are not keys, because clients remove
/// them from URLs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueKey(String);

impl ValueKey {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ValueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ValueKey {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let has_length = (1..=limits::MAX_VALUE_KEY_BYTES).contains(&text.len());
        if !has_length || text.chars().any(char::is_control) || matches!(text, "." | "..") {
            let problem = format!(
                "must be 1 to {} bytes of UTF-8 without control characters, and neither `.` nor `..`",
                limits::MAX_VALUE_KEY_BYTES
            );
            return Err(FieldError::new("key", problem));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A value, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptValue {
    /// Its key.
    pub key: ValueKey,
    /// The bytes.
    pub value: Vec<u8>,
    /// When it was written, in milliseconds since the Unix epoch.
    pub updated_at_ms: i64,
}

/// A value without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its key.
    pub key: ValueKey,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written, in milliseconds since the Unix epoch.
    pub updated_at_ms: i64,
}

impl ValueInfo {
    /// What it takes.
    pub fn totals(&self) -> ValueTotals {
        ValueTotals { values: 1, bytes: self.key.as_str().len() as u64 + self.bytes }
    }
}

/// Size of the values of one sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueTotals {
    /// Their number.
    pub values: u64,
    /// Size of all keys and values in bytes.
    pub bytes: u64,
}

impl ValueTotals {
    /// The totals of some values.
    pub fn of(values: &[KeptValue]) -> Self {
        let bytes = values.iter().map(|value| (value.key.as_str().len() + value.value.len()) as u64).sum();
        Self { values: values.len() as u64, bytes }
    }

    /// These and the others.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { values: self.values + other.values, bytes: self.bytes + other.bytes }
    }

    /// These without some of them.
    #[must_use]
    pub fn without(self, some: Self) -> Self {
        Self { values: self.values.saturating_sub(some.values), bytes: self.bytes.saturating_sub(some.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked() {
        let longest = "x".repeat(limits::MAX_VALUE_KEY_BYTES);
        for key in ["a", "user:42", "a/b c", "..a", "ключ", &longest] {
            assert_eq!(key.parse::<ValueKey>().unwrap().as_str(), key);
        }
        for key in ["", ".", "..", "a\0", "a\nb", "\u{85}", &format!("{longest}x")] {
            key.parse::<ValueKey>().unwrap_err();
        }
    }
}
