//! The keys that detach from a terminal. The terminal keeps running.

use std::str::FromStr;

/// Finds a sequence of keys in the input.
#[derive(Debug, Clone)]
pub(super) struct DetachKeys {
    /// The keys as the user wrote them: `ctrl-]`, or `ctrl-p,ctrl-q`.
    name: String,
    keys: Vec<u8>,
    /// Number of keys that the end of the input matches. They are held back until the next key.
    matched: usize,
}

/// What to do with the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Send it to the terminal.
    Text(Vec<u8>),
    /// Send this to the terminal, and detach.
    Detach(Vec<u8>),
}

/// [`Self::DEFAULT`].
impl Default for DetachKeys {
    fn default() -> Self {
        Self { name: Self::DEFAULT.into(), keys: vec![0x1d], matched: 0 }
    }
}

impl DetachKeys {
    /// The keys of a terminal for which the user has set none.
    pub(super) const DEFAULT: &str = "ctrl-]";

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn scan(&mut self, bytes: &[u8]) -> Input {
        let mut text = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if *byte != self.keys[self.matched] {
                // Handles a repeated first key. Sequences that repeat a longer part of themselves are unlikely.
                text.extend_from_slice(&self.keys[..self.matched]);
                self.matched = 0;
            }
            if *byte == self.keys[self.matched] {
                self.matched += 1;
            } else {
                text.push(*byte);
            }
            if self.matched == self.keys.len() {
                self.matched = 0;
                return Input::Detach(text);
            }
        }
        Input::Text(text)
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keys: Option<Vec<u8>> = text.split(',').map(key_of).collect();
        let keys = keys.ok_or_else(|| {
            format!(
                "must be keys separated by commas, such as `ctrl-]`, `ctrl-p,ctrl-q` or `a,b`, not {text:?}"
            )
        })?;
        Ok(Self { name: text.to_owned(), keys, matched: 0 })
    }
}

/// The byte of one key: an ASCII character, alone or after `ctrl-`.
fn key_of(name: &str) -> Option<u8> {
    let of = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Some(*byte),
        _ => None,
    };
    match name.strip_prefix("ctrl-") {
        None => of(name),
        Some(held) => {
            let byte = of(held)?.to_ascii_uppercase();
            // A terminal sends these bytes for ctrl and a key (ascii(7)).
            (b'@'..=b'_').contains(&byte).then_some(byte & 0x1f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> DetachKeys {
        text.parse().unwrap()
    }

    #[test]
    fn one_key_detaches() {
        let mut keys = keys("ctrl-]");
        assert_eq!(keys.scan(b"ls\r"), Input::Text(b"ls\r".into()));
        assert_eq!(keys.scan(b"ab\x1dcd"), Input::Detach(b"ab".into()));
    }

    #[test]
    fn incomplete_key_sequences_are_sent_to_the_terminal() {
        let mut keys = keys("ctrl-p,ctrl-q");
        assert_eq!(keys.scan(b"a\x10"), Input::Text(b"a".into()));
        assert_eq!(keys.scan(b"b\x10"), Input::Text(b"\x10b".into()));
        assert_eq!(keys.scan(b"\x10"), Input::Text(b"\x10".into()));
        assert_eq!(keys.scan(b"\x11"), Input::Detach(Vec::new()));
    }

    #[test]
    fn unknown_keys_are_rejected() {
        for text in ["", "ctrl-", "ctrl-1", "ctrl-p,", "alt-x", "é"] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text:?}");
        }
    }
}
