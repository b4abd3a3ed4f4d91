//! Titles of chats: one visible line each.

/// Maximum length of a title in characters.
pub(super) const MAX_TITLE_CHARS: usize = 200;

/// Maximum length of a title from a first message, in characters.
const MAX_GENERATED_CHARS: usize = 60;

/// Checks a title from the user. Returns `None` if nothing of it is visible, or if it is too long.
pub(super) fn given(title: &str) -> Option<&str> {
    let title = title.trim();
    let is_seen = title.chars().any(|it| !it.is_whitespace() && it != '\u{200d}');
    (is_seen && title.chars().count() <= MAX_TITLE_CHARS && !title.chars().any(is_hidden)).then_some(title)
}

/// Makes a title from the first message: its first line, cut at a word.
pub(super) fn made_of(text: &str) -> String {
    let visible: String = text.chars().filter(|it| *it == '\n' || !is_hidden(*it)).collect();
    let line = visible.trim().lines().next().unwrap_or_default().trim_end();
    if line.is_empty() {
        return "Chat".to_owned();
    }
    if line.chars().count() <= MAX_GENERATED_CHARS {
        return line.to_owned();
    }
    let cut: String = line.chars().take(MAX_GENERATED_CHARS).collect();
    let end = cut.rfind(' ').filter(|end| *end > 0).unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

/// Whether a character is invisible or changes the direction of text (Unicode Bidirectional Algorithm, UAX #9).
/// U+200D joins emoji.
fn is_hidden(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(it, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_cut_at_a_word() {
        assert_eq!(made_of("  /bash ls -l\nmore"), "/bash ls -l");
        let long = "word ".repeat(30);
        assert_eq!(made_of(&long), format!("{}…", "word ".repeat(12).trim_end()));
        assert_eq!(made_of(&"é".repeat(100)), format!("{}…", "é".repeat(60)));
        assert_eq!(made_of("\u{7}\u{200b}\u{202e}x\r\ny"), "x");
        assert_eq!(made_of("\u{200b}"), "Chat");
    }

    #[test]
    fn a_title_must_have_visible_characters() {
        assert_eq!(given(" Plans 👩‍💻 "), Some("Plans 👩‍💻"));
        let long = "x".repeat(MAX_TITLE_CHARS + 1);
        for title in ["", " ", "\u{200d}", "a\nb", "\u{202e}txt.exe", "a\u{200b}b", &long] {
            assert_eq!(given(title), None, "{title:?}");
        }
    }
}
