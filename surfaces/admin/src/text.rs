//! Text from outside: session keys, host names, commands, names. Users and sandboxes choose it, so it is hostile.
//!
//! maud escapes it. Beyond that, characters that are invisible or change the direction of the text are shown as escapes, each
//! text is isolated from the direction of its surroundings (`bdi`), and its length is bounded.

use std::fmt::Write as _;

use log_text::is_unsafe;
use maud::{Markup, html};

use crate::limits::{MAX_CELL_CHARS, MAX_TEXT_CHARS};

/// Shows a text in a cell of a table.
pub(crate) fn cell(text: &str) -> Markup {
    shown(text, MAX_CELL_CHARS)
}

/// Shows a text that is the subject of a page.
pub(crate) fn long(text: &str) -> Markup {
    shown(text, MAX_TEXT_CHARS)
}

fn shown(text: &str, max_chars: usize) -> Markup {
    let (start, is_cut) = start_of(text, max_chars);
    html! {
        bdi { (visible(start)) }
        @if is_cut { span.muted title="The rest is not shown." { "…" } }
    }
}

/// The first characters of a text as plain text, for titles and attributes.
pub(crate) fn plain(text: &str) -> String {
    visible(start_of(text, MAX_CELL_CHARS).0)
}

/// Replaces characters that are not visible with their escapes.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_unsafe(char) {
            // Writing to a string never fails.
            let _ = write!(shown, "{}", char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

fn start_of(text: &str, max_chars: usize) -> (&str, bool) {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_inert() {
        let attack = "<img src=x onerror=alert(1)>\"'&\u{202e}moc.live\u{0}\n\u{1b}[31m";
        let shown = cell(attack).into_string();
        assert_eq!(
            shown,
            "<bdi>&lt;img src=x onerror=alert(1)&gt;&quot;'&amp;\\u{202e}moc.live\\u{0}\\n\\u{1b}[31m</bdi>"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "\u{e9}".repeat(MAX_CELL_CHARS + 1);
        let shown = cell(&long).into_string();
        assert_eq!(shown.matches('\u{e9}').count(), MAX_CELL_CHARS);
        assert!(shown.ends_with("…</span>"), "{shown}");
        assert!(!cell(&"a".repeat(MAX_CELL_CHARS)).into_string().contains('…'));
        assert_eq!(plain(&long).chars().count(), MAX_CELL_CHARS);
    }
}
