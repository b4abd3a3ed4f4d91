//! `text_editor_20250728`: views files and directories, creates files, and replaces and inserts text.
//!
//! A file is read, changed and written back only if it has not changed in between. Otherwise the edit is repeated on
//! the new content. If the provider cannot detect a change, a change that a command makes at that moment may be lost.
//! Changes by the editor are never lost.

mod directory;
mod text;

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use self::text::{Changed, inserted, numbered, replaced};
use crate::provider::{self, FilePart};
use crate::tools::read::{Excerpt, Rest};
use crate::tools::{Error, ReadFileInput, Result, Toolkit};

/// Maximum length of an edited file in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of attempts if others change the file at the same time.
const TRIES: usize = 5;

/// Input from the model. A null field counts as absent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub enum EditorInput {
    /// Shows a file with line numbers, or two levels of a directory.
    View {
        /// Path of the file or directory.
        path: String,
        /// First and last line, counted from 1. -1 is the end. Only for files.
        #[serde(default)]
        view_range: Option<(i64, i64)>,
    },
    /// Creates or replaces a file with this text.
    Create {
        /// Path of the file.
        path: String,
        /// Complete content.
        file_text: String,
    },
    /// Replaces a text that occurs exactly once.
    StrReplace {
        /// Path of the file.
        path: String,
        /// Text to replace, with white space and line endings exactly as shown by a view.
        old_str: String,
        /// New text. Empty if absent.
        #[serde(default)]
        new_str: String,
    },
    /// Inserts a text after a line.
    Insert {
        /// Path of the file.
        path: String,
        /// Line number. 0 is before the first line.
        insert_line: usize,
        /// Lines to insert. The last line ending may be absent.
        #[serde(alias = "new_str")]
        insert_text: String,
    },
}

impl<'de> Deserialize<'de> for EditorInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        fields.retain(|_, value| !value.is_null());
        Self::deserialize(Value::Object(fields)).map_err(D::Error::custom)
    }
}

impl Toolkit {
    /// Runs an operation of the editor and returns the message for the model.
    pub async fn edit(&self, input: EditorInput) -> Result<String> {
        match input {
            EditorInput::View { path, view_range } => self.view(checked(&path)?, view_range).await,
            EditorInput::Create { path, file_text } => {
                self.create(checked(&path)?, file_text.into()).await?;
                Ok(format!("File created successfully at: {path}"))
            }
            EditorInput::StrReplace { path, old_str, new_str } => {
                self.change(checked(&path)?, |text| replaced(text, &path, &old_str, &new_str)).await
            }
            EditorInput::Insert { path, insert_line, insert_text } => {
                self.change(checked(&path)?, |text| inserted(text, &path, insert_line, &insert_text)).await
            }
        }
    }

    async fn view(&self, path: &str, range: Option<(i64, i64)>) -> Result<String> {
        if let Some(entries) = self.entries(path).await? {
            return match range {
                None => Ok(entries),
                Some(_) => Err(Error::bad_input(
                    "view_range",
                    "is only for files, and the path is a directory".to_owned(),
                )),
            };
        }
        let (offset, limit) = lines_of(range)?;
        let input = ReadFileInput { path: path.to_owned(), offset, limit };
        Ok(shown(&self.excerpt(&input).await.map_err(with_editor_fields)?))
    }

    async fn create(&self, path: &str, content: Bytes) -> Result<()> {
        let write = |sandbox| {
            let content = content.clone();
            async move { Ok(self.provider().write_file(&sandbox, path, content).await?) }
        };
        self.act(write).await
    }

    async fn change(&self, path: &str, change: impl Fn(&str) -> Result<Changed>) -> Result<String> {
        let _lock = lock_for(self.key(), path).lock().await;
        for _ in 0..TRIES {
            let was = self.load(path).await?;
            let text = str::from_utf8(&was.bytes).map_err(|_| Error::NotText { path: path.to_owned() })?;
            let changed = change(text)?;
            let shown = changed.shown();
            if self.replace_file(path, &was, changed.text.into()).await? {
                return Ok(format!(
                    "The file {path} has been edited. This is the changed part with line numbers:\n{shown}"
                ));
            }
        }
        Err(Error::bad_input("path", "names a file that keeps changing: nothing was changed".to_owned()))
    }

    async fn load(&self, path: &str) -> Result<FilePart> {
        let read =
            |sandbox| async move { Ok(self.provider().read_file(&sandbox, path, 0, MAX_BYTES + 1).await?) };
        let file = self.act(read).await?;
        if file.bytes.len() > MAX_BYTES {
            return Err(Error::bad_input(
                "path",
                format!("names a file of more than {MAX_BYTES} bytes: use bash (`sed -i`)"),
            ));
        }
        Ok(file)
    }

    /// Replaces a file if it is unchanged since it was read. Returns whether it was replaced.
    async fn replace_file(&self, path: &str, was: &FilePart, content: Bytes) -> Result<bool> {
        let replace = |sandbox| {
            let content = content.clone();
            async move {
                match self.provider().replace_file(&sandbox, path, was, content).await {
                    Err(provider::Error::Changed { .. }) => Ok(false),
                    replaced => Ok(replaced.map(|()| true)?),
                }
            }
        };
        self.act(replace).await
    }
}

/// Edits of files that share a lock wait for each other, which is harmless.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

/// Returns the lock that a change of a file holds, because not every provider can detect concurrent changes.
fn lock_for(chat: impl Hash, path: &str) -> &'static Mutex<()> {
    let mut hasher = DefaultHasher::new();
    (chat, path).hash(&mut hasher);
    let length = LOCKS.len() as u64;
    &LOCKS[usize::try_from(hasher.finish() % length).unwrap_or_default()]
}

fn checked(path: &str) -> Result<&str> {
    match path {
        "" => Err(Error::bad_input("path", "must not be empty".to_owned())),
        _ if path.contains('\0') => Err(Error::bad_input("path", "must not have NUL characters".to_owned())),
        _ => Ok(path),
    }
}

fn lines_of(range: Option<(i64, i64)>) -> Result<(Option<u64>, Option<u64>)> {
    let Some((first, last)) = range else { return Ok((None, None)) };
    let wrong = || {
        Error::bad_input("view_range", "must be the first line, from 1, and the last one or -1".to_owned())
    };
    let from = u64::try_from(first).ok().filter(|first| *first > 0).ok_or_else(wrong)?;
    match last {
        -1 => Ok((Some(from), None)),
        _ if last >= first => Ok((Some(from), Some(last.abs_diff(first) + 1))),
        _ => Err(wrong()),
    }
}

/// Adds line numbers. Lines after the requested ones are not mentioned.
fn shown(excerpt: &Excerpt) -> String {
    let lines = numbered(&excerpt.text, excerpt.first);
    match &excerpt.rest {
        None | Some(Rest::More { .. }) => lines,
        Some(Rest::Cut { omitted, next }) => {
            format!("{lines}[truncated: {omitted} are not shown; continue with view_range [{next}, -1]]\n")
        }
        Some(Rest::CutInLine { omitted, line }) => {
            format!(
                "{lines}[truncated: {omitted} are not shown; line {line} is longer than a result may be: use bash (`cut -c`)]\n"
            )
        }
    }
}

/// Converts errors about `readFile` fields into errors about fields of the editor.
fn with_editor_fields(error: Error) -> Error {
    match error {
        Error::NoLine { path, offset, lines } => Error::bad_input(
            "view_range",
            format!("begins with line {offset}, and {path} has only {lines} lines"),
        ),
        Error::BadInput { field: "offset", problem } => Error::bad_input("view_range", problem),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn inputs_of_the_editor_are_parsed() {
        let read = |text: &str| serde_json::from_str::<EditorInput>(text);
        let view = read(r#"{"command":"view","path":"a","view_range":[1,-1]}"#).unwrap();
        assert_eq!(view, EditorInput::View { path: "a".into(), view_range: Some((1, -1)) });
        let replace = read(r#"{"command":"str_replace","path":"a","old_str":"b"}"#).unwrap();
        let null = read(r#"{"command":"str_replace","path":"a","old_str":"b","new_str":null}"#).unwrap();
        assert_eq!(replace, null);
        let insert = read(r#"{"command":"insert","path":"a","insert_line":0,"new_str":"b"}"#).unwrap();
        let null = r#"{"command":"insert","path":"a","insert_line":0,"insert_text":"b","new_str":null,"view_range":null}"#;
        assert_eq!(insert, read(null).unwrap());
        let words = read(r#"{"command":"insert","path":"a","insert_line":0,"insert_text":null}"#);
        assert!(words.unwrap_err().to_string().contains("insert_text"));
        assert!(read(r#"{"command":"undo_edit","path":"a"}"#).is_err());
        assert!(read(r#"{"command":"view","path":"a","other":1}"#).is_err());
    }
}
