//! Replacements in a text.

use http::StatusCode;
use serde::Deserialize;

use crate::failure::Failure;

/// Maximum size of a file that is edited, before and after each replacement.
pub(crate) const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of replacements in a request.
const MAX_REPLACEMENTS: usize = 256;

/// Characters of a text that an error repeats.
const SHOWN_CHARS: usize = 100;

/// A text to find, and what replaces it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Replacement {
    target: String,
    replacement: String,
    /// First line in which the text is searched, counted from 1.
    start_line: Option<usize>,
    /// Last line in which the text is searched.
    end_line: Option<usize>,
    #[serde(default)]
    allow_multiple: bool,
}

/// Applies replacements in order, each to the result of the previous one.
pub(crate) fn apply(text: String, replacements: &[Replacement]) -> Result<String, Failure> {
    if replacements.len() > MAX_REPLACEMENTS {
        let problem = format!("has more than {MAX_REPLACEMENTS} entries");
        return Err(Failure::argument("replacements", problem));
    }
    replacements.iter().try_fold(text, |text, replacement| replacement.apply(&text))
}

impl Replacement {
    fn apply(&self, text: &str) -> Result<String, Failure> {
        if self.target.is_empty() {
            return Err(Failure::argument("target", "must not be empty"));
        }
        let (start, end) = region(text, self.start_line, self.end_line);
        let searched = &text[start..end];
        let count = searched.matches(&self.target).count();
        let shown: String = self.target.chars().take(SHOWN_CHARS).collect();
        match count {
            0 => return Err(Failure::bad_request(format_args!("Target string not found: {shown:?}"))),
            2.. if !self.allow_multiple => {
                let detail =
                    format!("Found {count} occurrences of target string but allow_multiple is false");
                return Err(Failure::bad_request(detail));
            }
            _ => {}
        }
        let added = count.saturating_mul(self.replacement.len());
        if (text.len() - count * self.target.len()).saturating_add(added) > MAX_FILE_BYTES {
            let detail = format!("the file would have more than {MAX_FILE_BYTES} bytes");
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        let replaced = searched.replace(&self.target, &self.replacement);
        Ok([&text[..start], &replaced, &text[end..]].concat())
    }
}

/// Where the lines begin and end in the text. Lines beyond the end of the text are empty.
fn region(text: &str, first: Option<usize>, last: Option<usize>) -> (usize, usize) {
    let end_of = |lines: usize| match lines {
        0 => 0,
        lines => text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    let start = first.map_or(0, |first| end_of(first.saturating_sub(1)));
    let end = last.map_or(text.len(), end_of);
    (start, end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacement(target: &str, replacement: &str) -> Replacement {
        Replacement { target: target.into(), replacement: replacement.into(), ..Replacement::default() }
    }

    fn applied(text: &str, replacement: Replacement) -> Result<String, String> {
        apply(text.into(), &[replacement]).map_err(|failure| failure.detail().to_owned())
    }

    #[test]
    fn lines_limit_the_search() {
        let text = "a\na\na";
        let within = |start_line, end_line| {
            applied(text, Replacement { start_line, end_line, ..replacement("a", "b") })
        };
        assert_eq!(within(Some(2), Some(2)).unwrap(), "a\nb\na");
        assert_eq!(within(Some(3), None).unwrap(), "a\na\nb");
        assert_eq!(within(None, Some(1)).unwrap(), "b\na\na");
        assert!(within(Some(4), None).unwrap_err().contains("not found"));
        assert!(within(Some(3), Some(1)).unwrap_err().contains("not found"));
        assert!(within(None, None).unwrap_err().contains("3 occurrences"));
        let all = Replacement { allow_multiple: true, ..replacement("a", "b") };
        assert_eq!(applied(text, all).unwrap(), "b\nb\nb");
    }

    #[test]
    fn a_result_that_is_too_large_is_rejected_before_it_exists() {
        let text = "a".repeat(1024 * 1024);
        let all = Replacement { allow_multiple: true, ..replacement("a", &"b".repeat(1024 * 1024)) };
        assert!(applied(&text, all).unwrap_err().contains("more than"));
        assert!(applied("a", replacement("", "b")).unwrap_err().contains("`target`"));
        assert!(apply("a".into(), &vec![replacement("a", "a"); MAX_REPLACEMENTS + 1]).is_err());
    }
}
