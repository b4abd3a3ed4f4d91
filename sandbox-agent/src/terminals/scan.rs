//! Finds the boundaries between sequences in a terminal's output.
//!
//! Knows just enough of ECMA-48 and UTF-8 to find where a character or an escape sequence begins and ends. A part cut
//! from the middle of the output can then start with a complete sequence. The screen interprets the sequences.

/// Position of the stream in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    /// A UTF-8 character with this many bytes missing.
    Character(u8),
    Escape,
    /// `ESC [` up to its final byte.
    Control,
    /// `ESC ]`, `ESC P` and the like, up to BEL or `ESC \`.
    Text,
}

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;

/// Follows a stream byte by byte.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { state: State::Ground }
    }
}

impl Scanner {
    /// Processes one byte. Returns whether a sequence or a character begins after it.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        self.state = match (self.state, byte) {
            // They cancel any sequence.
            (_, CAN | SUB) => State::Ground,
            (_, ESC) => State::Escape,
            (State::Ground, _) => after_ground(byte),
            (State::Character(left), 0x80..=0xbf) if left > 1 => State::Character(left - 1),
            (State::Character(_), 0x80..=0xbf) => State::Ground,
            (State::Character(_), _) => after_ground(byte),
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::Text,
            (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Escape, _) => State::Ground,
            (State::Control, 0x40..=0x7e) => State::Ground,
            (State::Control, _) => State::Control,
            (State::Text, BEL) => State::Ground,
            (State::Text, _) => State::Text,
        };
        self.state == State::Ground
    }
}

fn after_ground(byte: u8) -> State {
    match byte {
        0xc2..=0xdf => State::Character(1),
        0xe0..=0xef => State::Character(2),
        0xf0..=0xf4 => State::Character(3),
        _ => State::Ground,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(bytes: &[u8]) -> bool {
        let mut scanner = Scanner::default();
        bytes.iter().map(|byte| scanner.step(*byte)).last().unwrap()
    }

    #[test]
    fn a_sequence_is_complete_after_its_last_byte() {
        for whole in
            ["a\n", "é", "日", "\x1b[31m", "\x1b(B", "\x1b]0;title\x07", "\x1b]0;t\x1b\\", "\x1bPq\x1b\\"]
        {
            assert!(is_complete(whole.as_bytes()), "{whole:?}");
            for cut in 1..whole.len() {
                let begun = &whole.as_bytes()[..cut];
                assert!(!is_complete(begun) || whole == "a\n", "{begun:?}");
            }
        }
    }

    #[test]
    fn the_scanner_always_recovers() {
        assert!(is_complete(b"\xe6\x97a"), "a character that was cut off ends with the next");
        assert!(is_complete(b"\x1b]never ends\x18"), "CAN ends everything");
        assert!(is_complete(b"\xff"));
    }
}
