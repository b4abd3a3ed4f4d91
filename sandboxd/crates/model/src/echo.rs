//! Callers' values in error messages, limited in length.

use std::borrow::Cow;
use std::fmt;

use super::limits::MAX_ECHO_BYTES;

/// Marks where a text was cut.
const ELLIPSIS: &str = "…";

/// Shows a caller's value in quotes, escaped and at most [`MAX_ECHO_BYTES`] of it.
pub struct Echo<'a>(pub &'a str);

impl fmt::Display for Echo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&cut(self.0, MAX_ECHO_BYTES), f)
    }
}

/// The text, or its beginning if it is longer than `max` bytes.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_between_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "lo…");
        assert_eq!(cut("ääää", 6), "ä…");
        assert!(Echo(&"\u{1}".repeat(100_000)).to_string().len() <= 6 * MAX_ECHO_BYTES);
        assert_eq!(Echo("a\nb").to_string(), r#""a\nb""#);
    }
}
