//! Log lines that cannot be forged.
//!
//! Some text in the log comes from clients and sandboxes: names of variables and files, patterns, error messages. A
//! line feed in it would start a new line, and other control characters control the terminal that shows it. So all
//! text of events and spans is escaped, as plain text and as JSON.

use std::borrow::Cow;
use std::fmt::{self, Write};

use tracing::error;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// Whether a character is unsafe to print: control characters (C0, DEL and C1), line and paragraph separators,
/// directional marks, and invisible characters (Unicode: Cc, Zl, Zp and most of Cf).
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Formats the fields of events and spans as text, including the message, each on one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct EscapedFields;

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write_escaped(writer, &text)
    }
}

fn write_escaped(mut writer: Writer<'_>, text: &str) -> fmt::Result {
    let mut rest = text;
    while let Some((at, char)) = rest.char_indices().find(|(_, char)| is_unsafe(*char)) {
        // `\n`, `\t` and `\r` as such, all others by their numbers.
        write!(writer, "{}{}", &rest[..at], char.escape_default())?;
        rest = &rest[at + char.len_utf8()..];
    }
    writer.write_str(rest)
}

/// Escapes the unsafe characters that JSON itself allows. They can only occur in strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_unsafe) {
        return json.into();
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for char in json.chars() {
        if is_unsafe(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string never fails.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(char);
        }
    }
    escaped.into()
}

/// Logs panics. Their messages may have several lines with any characters.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        error!(location, panic = panic.payload_as_str(), "a bug: a part of the program panicked");
    }));
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{info, info_span, subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug)]
    struct NestedError(String, Option<Box<NestedError>>);

    impl fmt::Display for NestedError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for NestedError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    /// Returns the log output for `text` in every position of an event.
    fn logged(text: &str, ansi: bool) -> String {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(EscapedFields)
            .with_ansi(ansi)
            .without_time()
            .with_writer(move || writer.clone());
        subscriber::with_default(subscriber.finish(), || {
            let span = info_span!("request", display = %text, late = tracing::field::Empty);
            let _inside = span.enter();
            span.record("late", text);
            let error = NestedError(text.into(), Some(Box::new(NestedError(text.into(), None))));
            let error: &(dyn Error + 'static) = &error;
            info!(text, display = %text, debug = ?NestedError(text.into(), None), error, "{text}");
        });
        let bytes = log.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Every control character, line separator, directional mark and invisible character.
    fn hostile() -> Vec<char> {
        let named = "\u{2028}\u{2029}\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\
                     \u{2068}\u{2069}\u{200b}\u{200d}\u{feff}\u{e0041}";
        ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}').chain(named.chars()).collect()
    }

    #[test]
    fn an_event_is_always_one_line() {
        for char in hostile() {
            let line = logged(&format!("a{char}2026-01-01T00:00:00Z  INFO forged"), false);
            let line = line.strip_suffix('\n').unwrap();
            assert!(!line.contains(is_unsafe), "{char:?}: {line:?}");
            assert_eq!(line.matches("forged").count(), 8, "{char:?}: nothing is omitted: {line}");
        }
    }

    #[test]
    fn colors_come_only_from_the_logger() {
        let own = |text: &str| logged(text, true).matches('\u{1b}').count();
        assert_eq!(own("a\u{1b}[31mred\u{9b}2J"), own("a"));
        assert!(own("a") > 0);
    }

    #[test]
    fn other_text_is_unchanged() {
        let line = logged("grüße, 日本語 🎉 \\n", false);
        assert!(line.contains("display=grüße, 日本語 🎉 \\n"), "{line}");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let strange: String = hostile().into_iter().filter(|char| *char > '\u{7e}').collect();
        let escaped = escape_json(&strange);
        assert!(!escaped.contains(is_unsafe) && escaped.starts_with("\\u007f\\u0080"), "{escaped}");
        assert!(escaped.ends_with("\\udb40\\udc41"), "{escaped}");
        assert!(matches!(escape_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
