//! Makes a server's own messages safe to show.
//!
//! They are not trusted: servers repeat what they received, including the key. Every text from a server goes through
//! [`Redactor`].

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::Error;
use super::limits::MAX_MESSAGE_CHARS;

/// Replaces a key.
const REDACTED: &str = "[key]";

/// Removes the key from messages.
#[derive(Debug, Clone)]
pub(super) struct Redactor {
    key: Option<SecretString>,
}

impl Redactor {
    pub(super) fn new(key: Option<SecretString>) -> Self {
        Self { key }
    }

    /// Returns a text that is safe to show: one short line without the key.
    pub(super) fn shown(&self, text: &str) -> String {
        let line: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        let line: String = line.trim().chars().filter(|c| !c.is_control()).collect();
        let line = match &self.key {
            Some(key) => line.replace(key.expose_secret(), REDACTED),
            None => line,
        };
        match line.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Returns an error that is safe to show.
    pub(super) fn of_error(&self, error: Error) -> Error {
        match error {
            Error::Refused { message, status, retry_after } => {
                Error::Refused { message: self.shown(&message), status, retry_after }
            }
            Error::Reported { message } => Error::Reported { message: self.shown(&message) },
            Error::Garbage { what } => Error::Garbage { what: self.shown(&what) },
            Error::Unreachable { .. }
            | Error::Cut
            | Error::Silent { .. }
            | Error::Slow { .. }
            | Error::TooLong { .. }
            | Error::InputTooLong { .. }
            | Error::TooManyCalls { .. }
            | Error::BadAddress(_)
            | Error::BadKey
            | Error::Setup(_) => error,
        }
    }
}

/// Finds the message of an error in any of the common forms: `{error: {message}}`, `{error: "…"}`, `{message}`,
/// `{detail}`, and a list of one of them.
pub(super) fn of_fault(fault: &Value) -> String {
    match fault {
        Value::String(text) => text.clone(),
        Value::Array(faults) => faults.first().map(of_fault).unwrap_or_default(),
        Value::Object(fields) => {
            let inner = ["error", "message", "detail", "type", "code"];
            let mut inner = inner.iter().filter_map(|name| fields.get(*name)).map(of_fault);
            inner.find(|message| !message.is_empty()).unwrap_or_default()
        }
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_key_is_redacted_even_if_it_is_split_or_cut() {
        let redactor = Redactor::new(Some("sk-s3cret".into()));
        assert_eq!(redactor.shown("bad key sk-s3cret.\r\n Try\tagain"), "bad key [key].   Try again");
        assert_eq!(
            redactor.shown("sk-s3\u{0}cr\u{1b}et"),
            "[key]",
            "removed characters must not hide the key"
        );
        let long = "x".repeat(MAX_MESSAGE_CHARS - 3) + "sk-s3cret";
        assert_eq!(redactor.shown(&long), "x".repeat(MAX_MESSAGE_CHARS - 3) + "[ke…");
    }

    #[test]
    fn an_error_message_is_found_in_every_format() {
        for fault in [
            json!({"error": {"message": "no", "type": "x", "code": 4}}),
            json!({"error": "no"}),
            json!({"object": "error", "message": "no", "code": 400}),
            json!({"detail": [{"type": "x", "message": "no"}]}),
            json!([{"error": {"code": 400, "message": "no"}}]),
            json!({"error": {"message": null, "type": "no"}}),
        ] {
            assert_eq!(of_fault(&fault), "no", "{fault}");
        }
        assert_eq!(of_fault(&json!({"error": {"code": 502}})), "502");
        assert_eq!(of_fault(&json!({"other": "no"})), "");
    }
}
