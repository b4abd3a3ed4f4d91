//! The contents of a terminal's screen.
//!
//! Rendered by the vt100 crate from bytes that a hostile program may have written. If they make the crate panic, the
//! screen restarts empty, and the terminal and the agent continue. All use of the crate goes through [`guarded`].
//! After the terminal has ended, only its last picture is kept.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use agent_protocol::v1;
use bytes::Bytes;

use crate::limits::{LAST_SCREEN_BYTES, SCREEN_SCROLLBACK_ROWS, SCREEN_TEXT_BYTES};

/// Cancels an incomplete sequence (ECMA-48, CAN), then resets margins, modes and character sets (DECSTR).
const RESET: &str = "\x18\x1b[!p";
const TO_ALTERNATE: &str = "\x1b[?1049h";
const TO_MAIN: &str = "\x1b[?1049l";

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: NonZeroU16,
    pub(crate) rows: NonZeroU16,
}

impl Size {
    pub(crate) fn to_wire(self) -> v1::TerminalSize {
        v1::TerminalSize { cols: self.cols.get().into(), rows: self.rows.get().into() }
    }
}

/// A live screen, or its last picture.
pub(super) enum Screen {
    Live(Box<vt100::Parser>),
    Still { to_wire: v1::TerminalScreen, redraw: Bytes },
}

impl Screen {
    pub(super) fn new(size: Size) -> Self {
        Self::Live(Box::new(parser(size)))
    }

    /// Processes output.
    pub(super) fn process(&mut self, data: &[u8]) {
        self.change(|parser| parser.process(data));
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.change(|parser| parser.set_size(size.rows, size.cols));
    }

    fn change(&mut self, change: impl FnOnce(&mut vt100::Parser)) {
        let Self::Live(parser) = self else { return };
        let (rows, cols) = parser.screen().size();
        if guarded(|| change(parser)).is_none() {
            **parser = self::parser(Size { cols, rows });
        }
    }

    /// Returns the visible text and the cursor position.
    pub(super) fn to_wire(&self) -> v1::TerminalScreen {
        let parser = match self {
            Self::Live(parser) => parser,
            Self::Still { to_wire, .. } => return to_wire.clone(),
        };
        let to_wire = guarded(|| {
            let (row, col) = parser.screen().cursor_position();
            let mut text = parser.screen().contents();
            text.truncate(text.floor_char_boundary(SCREEN_TEXT_BYTES));
            v1::TerminalScreen { text, cursor_row: row.into(), cursor_col: col.into() }
        });
        to_wire.unwrap_or_default()
    }

    /// Returns the bytes that make any terminal of this size show the same.
    pub(super) fn redraw(&self) -> Bytes {
        match self {
            Self::Still { redraw, .. } => redraw.clone(),
            Self::Live(parser) => {
                let screen = parser.screen();
                let which = if screen.alternate_screen() { TO_ALTERNATE } else { TO_MAIN };
                let drawn = guarded(|| screen.state_formatted()).unwrap_or_default();
                format!("{RESET}{which}{drawn}").into()
            }
        }
    }

    /// Keeps the visible contents and drops the parser.
    pub(super) fn freeze(&mut self) {
        let (to_wire, mut redraw) = (self.to_wire(), self.redraw());
        if redraw.len() > LAST_SCREEN_BYTES {
            let mut text = to_wire.text.replace('\n', "\r\n");
            text.truncate(text.floor_char_boundary(LAST_SCREEN_BYTES));
            redraw = format!("{RESET}{TO_MAIN}\x1b[H\x1b[J{text}").into();
        }
        *self = Self::Still { to_wire, redraw };
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Live(_) => "Live",
            Self::Still { .. } => "Still",
        })
    }
}

fn parser(size: Size) -> vt100::Parser {
    vt100::Parser::new(size.rows, size.cols, SCREEN_SCROLLBACK_ROWS)
}

/// Calls `look`. Returns `None` if it panics. The data that it worked on must not be used after that.
fn guarded<T>(look: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(look)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(cols: u16, rows: u16) -> Size {
        Size { cols: NonZeroU16::new(cols).unwrap(), rows: NonZeroU16::new(rows).unwrap() }
    }

    #[test]
    fn a_redraw_replaces_any_other_screen() {
        let mut screen = Screen::new(size(20, 5));
        screen.process(b"first\r\n\x1b[31mred\x1b[0m\x1b[4;7Hhere");
        let mut other = Screen::new(size(20, 5));
        other.process(b"\x1b[?1049hsomething else\x1b[2;3r\x1b]0;under way");
        other.process(&screen.redraw());
        assert_eq!(other.to_wire(), screen.to_wire());
        assert_eq!(screen.to_wire().text, "first\nred\n\n      here");
        assert_eq!((screen.to_wire().cursor_row, screen.to_wire().cursor_col), (3, 10));
        screen.freeze();
        assert_eq!(other.to_wire(), screen.to_wire());
    }

    #[test]
    fn after_a_panic_the_screen_is_empty() {
        let mut screen = Screen::new(size(20, 5));
        screen.process(b"text");
        screen.change(|_| panic!("as a fault in the library would"));
        assert_eq!(screen.to_wire().text, "");
        screen.process(b"again");
        assert_eq!(screen.to_wire().text, "again");
    }

    #[test]
    fn any_bytes_and_any_size_are_accepted() {
        let mut screen = Screen::new(size(1, 1));
        let mut seed = 1_u32;
        for round in 0..2000_u16 {
            let mut bytes = Vec::new();
            for _ in 0..40 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let choice = b"\x1b[;?0123456789ABCDHJKLMPSTXhlmr\r\n\x08\t\xe6\x97\xa5\xcc\x81 ab";
                bytes.push(choice[(seed >> 16) as usize % choice.len()]);
            }
            screen.process(&bytes);
            screen.resize(size(1 + round % 37, 1 + round % 13));
            drop((screen.to_wire(), screen.redraw()));
        }
    }
}
