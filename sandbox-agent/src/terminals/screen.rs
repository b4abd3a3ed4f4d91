//! What a terminal shows.
//!
//! Rendered by the vt100 crate, which reads bytes that a hostile program chose. Should one make it panic, the
//! screen begins anew, empty, and neither the terminal nor the agent ends: [`guarded`] is the only way to it. Once
//! the terminal has ended only what it showed last is kept.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use agent_protocol::v1;
use bytes::Bytes;

use crate::limits::{SCREEN_SCROLLBACK_ROWS, SCREEN_TEXT_BYTES, STILL_BYTES};

/// Cuts off a sequence that is under way (ECMA-48, CAN), then resets margins, modes and character sets (DECSTR).
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

/// A screen that changes, or its last picture.
pub(super) enum Screen {
    Live(Box<vt100::Parser>),
    Still { told: v1::TerminalScreen, redraw: Bytes },
}

impl Screen {
    pub(super) fn new(size: Size) -> Self {
        Self::Live(Box::new(parser(size)))
    }

    /// Shows what was written.
    pub(super) fn show(&mut self, data: &[u8]) {
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

    /// What is seen, and where the cursor is.
    pub(super) fn told(&self) -> v1::TerminalScreen {
        let parser = match self {
            Self::Live(parser) => parser,
            Self::Still { told, .. } => return told.clone(),
        };
        let told = guarded(|| {
            let (row, col) = parser.screen().cursor_position();
            let mut text = parser.screen().contents();
            text.truncate(text.floor_char_boundary(SCREEN_TEXT_BYTES));
            v1::TerminalScreen { text, cursor_row: row.into(), cursor_col: col.into() }
        });
        told.unwrap_or_default()
    }

    /// What brings any terminal of this size to show the same.
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

    /// Keeps what is seen and lets go of what drew it.
    pub(super) fn freeze(&mut self) {
        let (told, mut redraw) = (self.told(), self.redraw());
        if redraw.len() > STILL_BYTES {
            let mut text = told.text.replace('\n', "\r\n");
            text.truncate(text.floor_char_boundary(STILL_BYTES));
            redraw = format!("{RESET}{TO_MAIN}\x1b[H\x1b[J{text}").into();
        }
        *self = Self::Still { told, redraw };
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

/// What `look` finds; `None` where it panics. What it worked on must not be used again after that.
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
    fn a_redraw_shows_the_same_screen_to_whoever_had_another() {
        let mut screen = Screen::new(size(20, 5));
        screen.show(b"first\r\n\x1b[31mred\x1b[0m\x1b[4;7Hhere");
        let mut other = Screen::new(size(20, 5));
        other.show(b"\x1b[?1049hsomething else\x1b[2;3r\x1b]0;under way");
        other.show(&screen.redraw());
        assert_eq!(other.told(), screen.told());
        assert_eq!(screen.told().text, "first\nred\n\n      here");
        assert_eq!((screen.told().cursor_row, screen.told().cursor_col), (3, 10));
        screen.freeze();
        assert_eq!(other.told(), screen.told());
    }

    #[test]
    fn a_panic_leaves_an_empty_screen_and_nothing_else() {
        let mut screen = Screen::new(size(20, 5));
        screen.show(b"text");
        screen.change(|_| panic!("as a fault in the library would"));
        assert_eq!(screen.told().text, "");
        screen.show(b"again");
        assert_eq!(screen.told().text, "again");
    }

    #[test]
    fn any_bytes_and_any_size_are_shown() {
        let mut screen = Screen::new(size(1, 1));
        let mut seed = 1_u32;
        for round in 0..2000_u16 {
            let mut bytes = Vec::new();
            for _ in 0..40 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let choice = b"\x1b[;?0123456789ABCDHJKLMPSTXhlmr\r\n\x08\t\xe6\x97\xa5\xcc\x81 ab";
                bytes.push(choice[(seed >> 16) as usize % choice.len()]);
            }
            screen.show(&bytes);
            screen.resize(size(1 + round % 37, 1 + round % 13));
            drop((screen.told(), screen.redraw()));
        }
    }
}
