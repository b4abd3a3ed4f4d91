//! Tells what a terminal would show from escape sequences (ECMA-48) and control characters.

use anstyle_parse::state::{Action, State, state_change};

/// Follows a text byte by byte.
#[derive(Debug, Default)]
pub struct Sequences {
    state: State,
}

impl Sequences {
    /// Whether the last byte belongs to a sequence that is not complete.
    pub fn is_within(&self) -> bool {
        self.state != State::Ground
    }

    /// Takes the next byte. Returns whether it belongs to the text: characters, line feeds, carriage returns and tabs.
    ///
    /// A line feed ends any sequence, so that a broken one hides the rest of its line and no more.
    pub fn shows(&mut self, byte: u8) -> bool {
        // Sequences consist of ASCII characters. Others within one belong to a text that is not shown.
        if !byte.is_ascii() {
            return !self.is_within();
        }
        let (next, action) = state_change(self.state, byte);
        let is_text = action == Action::Print || (action == Action::Execute && is_shown(byte));
        if is_text || byte == b'\n' {
            self.state = State::Ground;
            return true;
        }
        if next != State::Anywhere {
            self.state = next;
        }
        false
    }
}

/// Whether a control character has a meaning in text.
pub(crate) fn is_shown(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\t' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_is_shown() {
        let shown = |text: &str| {
            let mut sequences = Sequences::default();
            text.bytes().filter(|byte| sequences.shows(*byte)).map(char::from).collect::<String>()
        };
        assert_eq!(shown("a\x1b[1;31mb\x1b[m\x07c\td\r\n\0e"), "abc\td\r\ne");
        assert_eq!(shown("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
        assert_eq!(shown("a\x1b]0;broken\nb"), "a\nb");
    }
}
