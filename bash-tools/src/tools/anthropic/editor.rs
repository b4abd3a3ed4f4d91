//! `text_editor_20250728`: looks at files and directories, makes files, replaces and inserts text.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::tools::bash::{self, quoted};
use crate::tools::{Error, ReadFileInput, Result, Toolkit};

/// Longest file that is edited, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Entries of a directory that are told.
const MAX_ENTRIES: usize = 500;

/// What a look at a path that is no directory ends with.
const NO_DIRECTORY: i32 = 66;

/// Lines around a change that are told.
const AROUND: usize = 4;

/// What the model sends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum EditorInput {
    /// A file with line numbers, or what is in a directory and one level beneath.
    View {
        /// Which.
        path: String,
        /// First and last line, from 1; -1 is the end. Only of files.
        #[serde(default)]
        view_range: Option<(i64, i64)>,
    },
    /// A file with this text, replacing what is there.
    Create {
        /// Which.
        path: String,
        /// All of it.
        file_text: String,
    },
    /// Another text in place of one that is there exactly once.
    StrReplace {
        /// Which file.
        path: String,
        /// With blanks and line ends.
        old_str: String,
        /// Nothing where it is left out.
        #[serde(default)]
        new_str: String,
    },
    /// A text behind a line.
    Insert {
        /// Which file.
        path: String,
        /// 0 is before the first.
        insert_line: usize,
        /// Lines; their last line end may be left out.
        #[serde(alias = "new_str")]
        insert_text: String,
    },
}

impl Toolkit {
    /// Does what the editor is asked for; the answer is for the model.
    pub async fn edit(&self, input: EditorInput) -> Result<String> {
        match input {
            EditorInput::View { path, view_range } => self.view(&path, view_range).await,
            EditorInput::Create { path, file_text } => {
                self.save(&path, file_text).await?;
                Ok(format!("File created successfully at: {path}"))
            }
            EditorInput::StrReplace { path, old_str, new_str } => {
                let text = self.load(&path).await?;
                let (text, line) = replaced(&text, &path, &old_str, &new_str)?;
                let shown = around(&text, line, new_str.matches('\n').count());
                self.save(&path, text).await?;
                Ok(format!(
                    "The file {path} has been edited. This is the changed part with line numbers:\n{shown}"
                ))
            }
            EditorInput::Insert { path, insert_line, insert_text } => {
                let text = self.load(&path).await?;
                let text = inserted(&text, &path, insert_line, &insert_text)?;
                let shown = around(&text, insert_line + 1, insert_text.matches('\n').count());
                self.save(&path, text).await?;
                Ok(format!(
                    "The file {path} has been edited. This is the changed part with line numbers:\n{shown}"
                ))
            }
        }
    }

    async fn view(&self, path: &str, range: Option<(i64, i64)>) -> Result<String> {
        if let Some(entries) = self.entries(path).await? {
            return match range {
                None => Ok(entries),
                Some(_) => {
                    Err(bad("view_range", "is only for files, and the path is a directory".to_owned()))
                }
            };
        }
        let (offset, limit) = lines_of(range)?;
        let excerpt = self.excerpt(&ReadFileInput { path: path.to_owned(), offset, limit }).await?;
        let mut shown = numbered(&excerpt.text, excerpt.first);
        // Where the model has asked for the lines there are, no word is needed about the rest.
        if let Some(notice) = excerpt.notice.filter(|_| range.is_none_or(|(_, last)| last == -1)) {
            shown.push_str(&notice);
        }
        Ok(shown)
    }

    /// What is in a directory; `None` where the path is none.
    async fn entries(&self, path: &str) -> Result<Option<String>> {
        let path = quoted(path);
        let script = format!(
            "[ -d {path} ] || exit {NO_DIRECTORY}; cd -- {path} && find . -mindepth 1 -maxdepth 2 -name '.?*' -prune -o \
             -mindepth 1 -printf '%P%y\\n' | sed 's/d$/\\//; s/[^/]$//' | LC_ALL=C sort | head -n {}",
            MAX_ENTRIES + 1
        );
        let limits = self.limits();
        let mut output = limits.output;
        output.max_stdout_chars = MAX_BYTES;
        let listed =
            bash::whole(self.start_script(script), limits.timeout, output, CancellationToken::new()).await?;
        if listed.exit_code == NO_DIRECTORY {
            return Ok(None);
        }
        let mut entries: Vec<&str> = listed.stdout.lines().collect();
        let is_cut = entries.len() > MAX_ENTRIES;
        entries.truncate(MAX_ENTRIES);
        let mut text = entries.join("\n");
        if is_cut {
            write!(text, "\n[only the first {MAX_ENTRIES} entries are shown]").ok();
        }
        Ok(Some(text))
    }

    async fn load(&self, path: &str) -> Result<String> {
        let read = |sandbox| async move {
            Ok(self.provider().read_file(&sandbox, path, 0, MAX_BYTES + 1).await?.bytes)
        };
        let bytes = self.act(read).await?;
        if bytes.len() > MAX_BYTES {
            return Err(bad(
                "path",
                format!("names a file of more than {MAX_BYTES} bytes: use bash (`sed -i`)"),
            ));
        }
        String::from_utf8(bytes.into()).map_err(|_| Error::NotText { path: path.to_owned() })
    }

    async fn save(&self, path: &str, text: String) -> Result<()> {
        let content = Bytes::from(text);
        let write = |sandbox| {
            let content = content.clone();
            async move { Ok(self.provider().write_file(&sandbox, path, content).await?) }
        };
        self.act(write).await
    }
}

fn bad(field: &'static str, problem: String) -> Error {
    Error::BadInput { field, problem }
}

fn lines_of(range: Option<(i64, i64)>) -> Result<(Option<u64>, Option<u64>)> {
    let Some((first, last)) = range else { return Ok((None, None)) };
    let wrong = || bad("view_range", "must be the first line, from 1, and the last one or -1".to_owned());
    let from = u64::try_from(first).ok().filter(|first| *first > 0).ok_or_else(wrong)?;
    match last {
        -1 => Ok((Some(from), None)),
        _ if last >= first => Ok((Some(from), Some(last.abs_diff(first) + 1))),
        _ => Err(wrong()),
    }
}

fn numbered(text: &str, first: u64) -> String {
    let mut shown = String::new();
    for (number, line) in (first..).zip(text.lines()) {
        writeln!(shown, "{number:6}\t{line}").ok();
    }
    shown
}

/// Some lines before and behind the change.
fn around(text: &str, line: usize, more_lines: usize) -> String {
    let first = line.saturating_sub(AROUND).max(1);
    let shown = text.lines().skip(first - 1).take(line - first + more_lines + 1 + AROUND);
    numbered(&shown.collect::<Vec<_>>().join("\n"), first as u64)
}

/// The text with the change, and the line where that begins.
fn replaced(text: &str, path: &str, old: &str, new: &str) -> Result<(String, usize)> {
    if old.is_empty() {
        return Err(bad("old_str", "must not be empty".to_owned()));
    }
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    let places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).take(MAX_PLACES).collect();
    match places[..] {
        [] => Err(bad("old_str", format!("did not appear verbatim in {path}: no replacement was performed"))),
        [at] => Ok((format!("{}{new}{}", &text[..at], &text[at + old.len()..]), line_of(at))),
        _ => {
            let lines: Vec<String> = places.iter().map(|at| line_of(*at).to_string()).collect();
            let lines = lines.join(", ");
            let problem = format!("appears more than once in {path}, in lines {lines}: make it unique");
            Err(bad("old_str", problem))
        }
    }
}

/// Places that are told of.
const MAX_PLACES: usize = 20;

fn inserted(text: &str, path: &str, line: usize, insert: &str) -> Result<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if line > lines.len() {
        let problem = format!("is {line}, and {path} has only {} lines", lines.len());
        return Err(bad("insert_line", problem));
    }
    let (before, behind) = lines.split_at(line);
    let mut new = before.concat();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(insert);
    if !insert.is_empty() && !insert.ends_with('\n') && !behind.is_empty() {
        new.push('\n');
    }
    new.push_str(&behind.concat());
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_replaced_where_it_is_there_once() {
        assert_eq!(replaced("a\nb\nc\n", "f", "b\nc", "x").unwrap(), ("a\nx\n".to_owned(), 2));
        assert_eq!(replaced("a\nb\n", "f", "b\n", "").unwrap(), ("a\n".to_owned(), 2));
        let words = |old: &str| replaced("a\nb\na\n", "f", old, "x").unwrap_err().to_string();
        assert!(words("a").contains("lines 1, 3"), "{}", words("a"));
        assert!(words("z").contains("verbatim"));
        assert!(words("").contains("empty"));
    }

    #[test]
    fn a_text_is_inserted_behind_a_line() {
        let insert = |text: &str, line: usize, insert: &str| inserted(text, "f", line, insert).unwrap();
        assert_eq!(insert("a\nb\n", 0, "x"), "x\na\nb\n");
        assert_eq!(insert("a\nb\n", 1, "x\n"), "a\nx\nb\n");
        assert_eq!(insert("a\nb", 2, "x"), "a\nb\nx");
        assert_eq!(insert("", 0, "x"), "x");
        assert!(inserted("a\n", "f", 2, "x").unwrap_err().to_string().contains("only 1 lines"));
    }

    #[test]
    fn ranges_are_checked() {
        assert_eq!(lines_of(None).unwrap(), (None, None));
        assert_eq!(lines_of(Some((2, 4))).unwrap(), (Some(2), Some(3)));
        assert_eq!(lines_of(Some((2, -1))).unwrap(), (Some(2), None));
        for range in [(0, 1), (-1, 1), (3, 2), (1, -2), (i64::MIN, i64::MAX)] {
            assert!(lines_of(Some(range)).is_err(), "{range:?}");
        }
    }

    #[test]
    fn what_is_sent_is_read() {
        let read = |text: &str| serde_json::from_str::<EditorInput>(text);
        let view = read(r#"{"command":"view","path":"a","view_range":[1,-1]}"#).unwrap();
        assert_eq!(view, EditorInput::View { path: "a".into(), view_range: Some((1, -1)) });
        assert!(read(r#"{"command":"str_replace","path":"a","old_str":"b"}"#).is_ok());
        assert!(read(r#"{"command":"insert","path":"a","insert_line":0,"new_str":"b"}"#).is_ok());
        assert!(read(r#"{"command":"undo_edit","path":"a"}"#).is_err());
    }
}
