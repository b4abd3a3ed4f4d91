//! Progress reports of a running command.

use output_text::Cleaner;

/// Maximum length of a report in characters.
const MAX_CHARS: usize = 500;

/// The last line that a command has written.
#[derive(Debug, Default)]
pub(crate) struct LastLine {
    cleaner: Cleaner,
    line: String,
    is_new: bool,
}

impl LastLine {
    pub(crate) fn push(&mut self, text: &str) {
        let Self { cleaner, line, is_new } = self;
        // Only the end of the text can contain the last line.
        let mut start = text.len().saturating_sub(8 * MAX_CHARS);
        start = text.floor_char_boundary(start);
        cleaner.push(&text[start..], |complete| {
            if let Some(last) = complete.lines().rev().find(|line| !line.trim().is_empty()) {
                *line = last.chars().take(MAX_CHARS).collect();
                *is_new = true;
            }
        });
        if !cleaner.line().trim().is_empty() {
            *line = cleaner.line().chars().take(MAX_CHARS).collect();
            *is_new = true;
        }
    }

    /// Returns the line, or nothing if it was returned before.
    pub(crate) fn take(&mut self) -> String {
        if std::mem::take(&mut self.is_new) { self.line.clone() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_line_is_returned_once() {
        let mut last = LastLine::default();
        assert_eq!(last.take(), "");
        last.push("one\ntwo\n\n");
        assert_eq!((last.take(), last.take()), ("two".into(), String::new()));
        last.push("10%\r\x1b[32m20%");
        assert_eq!(last.take(), "20%");
        last.push(&format!("{}\nend", "é\n".repeat(100_000)));
        assert_eq!(last.take(), "end");
    }
}
