//! The keys that leave a terminal and let it go on.

use std::str::FromStr;

/// Keys after each other, found in what is typed.
#[derive(Debug, Clone)]
pub(super) struct DetachKeys {
    /// As they were written: `ctrl-]`, or `ctrl-p,ctrl-q`.
    name: String,
    keys: Vec<u8>,
    /// How many of them were typed last, and are kept back until it is clear what they mean.
    typed: usize,
}

/// What is to be done with what was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Pass it on.
    Text(Vec<u8>),
    /// Leave, after this was passed on.
    Detach(Vec<u8>),
}

impl DetachKeys {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Typed {
        let mut text = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if *byte != self.keys[self.typed] {
                // The first key may have been typed twice; longer repetitions nobody chooses.
                text.extend_from_slice(&self.keys[..self.typed]);
                self.typed = 0;
            }
            if *byte == self.keys[self.typed] {
                self.typed += 1;
            } else {
                text.push(*byte);
            }
            if self.typed == self.keys.len() {
                self.typed = 0;
                return Typed::Detach(text);
            }
        }
        Typed::Text(text)
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keys: Option<Vec<u8>> = text.split(',').map(key_of).collect();
        let keys = keys.ok_or_else(|| {
            format!("{text:?} is not keys such as `ctrl-]`, or `ctrl-p,ctrl-q`, or one letter after another")
        })?;
        Ok(Self { name: text.to_owned(), keys, typed: 0 })
    }
}

/// One key: a character of ASCII, alone or with `ctrl-` before it.
fn key_of(name: &str) -> Option<u8> {
    let of = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Some(*byte),
        _ => None,
    };
    match name.strip_prefix("ctrl-") {
        None => of(name),
        Some(held) => {
            let byte = of(held)?.to_ascii_uppercase();
            // What a terminal sends for them (ascii(7)).
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
    fn one_key_detaches_at_once() {
        let mut keys = keys("ctrl-]");
        assert_eq!(keys.take(b"ls\r"), Typed::Text(b"ls\r".into()));
        assert_eq!(keys.take(b"ab\x1dcd"), Typed::Detach(b"ab".into()));
    }

    #[test]
    fn keys_that_do_not_follow_each_other_are_passed_on() {
        let mut keys = keys("ctrl-p,ctrl-q");
        assert_eq!(keys.take(b"a\x10"), Typed::Text(b"a".into()));
        assert_eq!(keys.take(b"b\x10"), Typed::Text(b"\x10b".into()));
        assert_eq!(keys.take(b"\x10"), Typed::Text(b"\x10".into()));
        assert_eq!(keys.take(b"\x11"), Typed::Detach(Vec::new()));
    }

    #[test]
    fn what_no_keyboard_sends_is_refused() {
        for text in ["", "ctrl-", "ctrl-1", "ctrl-p,", "alt-x", "é"] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text:?}");
        }
    }
}
