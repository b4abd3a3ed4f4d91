//! Texts and lines, as the editor shows and changes them.
//!
//! Lines are shown without their endings. In a search, LF therefore matches CR LF in the file. New text gets the line
//! ending that most lines of the file have.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::tools::{Error, Result};

/// Number of lines shown around a change.
const CONTEXT_LINES: usize = 4;

/// Maximum number of reported positions.
const MAX_MATCHES: usize = 20;

/// Text of a file after a change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) text: String,
    /// First changed line, counted from 1.
    line: usize,
    /// Number of additional lines.
    more_lines: usize,
}

impl Changed {
    /// Returns the change with some lines before and after it.
    pub(super) fn shown(&self) -> String {
        let first = self.line.saturating_sub(CONTEXT_LINES).max(1);
        let count = self.line - first + self.more_lines + 1 + CONTEXT_LINES;
        let lines: Vec<&str> = self.text.lines().skip(first - 1).take(count).collect();
        numbered(&lines.join("\n"), first as u64)
    }
}

pub(super) fn numbered(text: &str, first: u64) -> String {
    let mut shown = String::new();
    for (number, line) in (first..).zip(text.lines()) {
        writeln!(shown, "{number:6}\t{line}").ok();
    }
    shown
}

/// Replaces the only occurrence of `old` with `new`.
pub(super) fn replaced(text: &str, path: &str, old: &str, new: &str) -> Result<Changed> {
    if old.is_empty() {
        return Err(Error::bad_input("old_str", "must not be empty".to_owned()));
    }
    // A search text with CR is matched as it is in the file.
    if old.contains('\r') && text.contains(old) {
        let at = only_match(text, path, old)?;
        return Ok(with(text, (at, at + old.len()), new));
    }
    let (shown, old) = (with_lf(text), with_lf(old));
    let at = only_match(&shown, path, &old)?;
    let place = (position_of(text, at), position_of(text, at + old.len()));
    Ok(with(text, place, &with_ends_of(text, new)))
}

/// Inserts `insert` after a line. 0 is before the first.
pub(super) fn inserted(text: &str, path: &str, line: usize, insert: &str) -> Result<Changed> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if line > lines.len() {
        let problem = format!("is {line} and must be 0 to {}, the number of lines of {path}", lines.len());
        return Err(Error::bad_input("insert_line", problem));
    }
    let (before, behind) = lines.split_at(line);
    let end = if has_cr_lf(text) { "\r\n" } else { "\n" };
    let insert = with_ends_of(text, insert);
    let mut new = before.concat();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push_str(end);
    }
    new.push_str(&insert);
    if !insert.is_empty() && !insert.ends_with('\n') && !behind.is_empty() {
        new.push_str(end);
    }
    new.push_str(&behind.concat());
    Ok(Changed { text: new, line: line + 1, more_lines: insert.matches('\n').count() })
}

fn with(text: &str, (start, end): (usize, usize), new: &str) -> Changed {
    Changed {
        text: format!("{}{new}{}", &text[..start], &text[end..]),
        line: line_of(text, start),
        more_lines: new.matches('\n').count(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn only_match(text: &str, path: &str, old: &str) -> Result<usize> {
    let matches = matches_of(text, old);
    match matches[..] {
        [] => Err(Error::bad_input(
            "old_str",
            format!("did not appear verbatim in {path}: no replacement was performed"),
        )),
        [at] => Ok(at),
        _ => {
            let lines: Vec<String> = matches.iter().map(|at| line_of(text, *at).to_string()).collect();
            let more = if matches.len() == MAX_MATCHES { " and maybe more" } else { "" };
            let (count, lines) = (matches.len(), lines.join(", "));
            let problem = format!("appears {count} times in {path}, in lines {lines}{more}: make it unique");
            Err(Error::bad_input("old_str", problem))
        }
    }
}

/// Occurrences may overlap: in `aaa`, `aa` is ambiguous.
fn matches_of(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut matches = Vec::new();
    let mut from = 0;
    while matches.len() < MAX_MATCHES
        && let Some(found) = text[from..].find(old)
    {
        matches.push(from + found);
        from += found + step;
    }
    matches
}

fn has_cr_lf(text: &str) -> bool {
    text.matches("\r\n").count() * 2 > text.matches('\n').count()
}

fn with_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

fn with_ends_of<'a>(text: &str, new: &'a str) -> Cow<'a, str> {
    if has_cr_lf(text) { with_lf(new).replace('\n', "\r\n").into() } else { new.into() }
}

/// Converts a position in the text with LF to one in the original. A position before a line ending is before its CR.
fn position_of(text: &str, shown: usize) -> usize {
    let mut finish_release = shown;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if finish_release == 0 {
            return at;
        }
        let is_hidden = *byte == b'\r' && bytes.get(at + 1) == Some(&b'\n');
        finish_release -= usize::from(!is_hidden);
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(text: &str, old: &str, new: &str) -> String {
        replaced(text, "f", old, new).unwrap().text
    }

    #[test]
    fn a_text_that_occurs_once_is_replaced() {
        assert_eq!(
            replaced("a\nb\nc\n", "f", "b\nc", "x").unwrap(),
            Changed { text: "a\nx\n".to_owned(), line: 2, more_lines: 0 }
        );
        assert_eq!(replace("a\nb\n", "b\n", ""), "a\n");
        assert_eq!(replace("a\nb", "b", "c"), "a\nc");
        let words = |text: &str, old: &str| replaced(text, "f", old, "x").unwrap_err().to_string();
        assert!(words("a\nb\na\n", "a").contains("2 times in f, in lines 1, 3"));
        assert!(words("éaéaé", "éaé").contains("2 times"), "overlapping matches are counted separately");
        assert!(words("a", "z").contains("verbatim"));
        assert!(words("a", "").contains("empty"));
    }

    #[test]
    fn text_without_cr_matches_a_file_with_cr_lf() {
        assert_eq!(replace("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(replace("a\r\nb\r\n", "b", "x\ny"), "a\r\nx\r\ny\r\n");
        assert_eq!(replace("a\r\nb\r\n", "\nb\n", "\nc\n"), "a\r\nc\r\n");
        assert_eq!(replace("a\r\nb\r\n", "a\r\nb", "a\nb"), "a\nb\r\n", "a CR in the old text is intended");
        assert_eq!(replace("é\nb\r\nc\n", "b\nc", "x\ny"), "é\nx\ny\n", "most lines end with LF");
        assert_eq!(replace("a\r\nb", "a\n", ""), "b");
        assert!(replaced("a\nb\r\na\r\nb\n", "f", "a\nb", "x").is_err(), "both are shown alike");
    }

    #[test]
    fn a_text_is_inserted_after_a_line() {
        let insert = |text: &str, line: usize, insert: &str| inserted(text, "f", line, insert).unwrap().text;
        assert_eq!(insert("a\nb\n", 0, "x"), "x\na\nb\n");
        assert_eq!(insert("a\nb\n", 1, "x\n"), "a\nx\nb\n");
        assert_eq!(insert("a\nb\n", 2, "x\n"), "a\nb\nx\n");
        assert_eq!(insert("a\nb", 2, "x"), "a\nb\nx");
        assert_eq!(insert("a\nb", 1, "x"), "a\nx\nb");
        assert_eq!(insert("", 0, "x"), "x");
        assert_eq!(insert("a\r\nb", 1, "x\ny"), "a\r\nx\r\ny\r\nb");
        assert_eq!(insert("a\r\nb", 2, "x"), "a\r\nb\r\nx");
        let words = inserted("a\n", "f", 2, "x").unwrap_err().to_string();
        assert!(words.contains("`insert_line` is 2 and must be 0 to 1"), "{words}");
    }

    #[test]
    fn a_change_is_shown_with_its_context() {
        let text: String = (1..=20).map(|line| format!("{line}\r\n")).collect();
        let shown = replaced(&text, "f", "10\n", "ten\nten\n").unwrap().shown();
        assert!(shown.starts_with("     6\t6\n") && shown.ends_with("    15\t14\n    16\t15\n"), "{shown}");
        assert_eq!(replaced("a\nb\n", "f", "b\n", "").unwrap().shown(), "     1\ta\n");
    }
}
