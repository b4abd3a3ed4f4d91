//! `file_read`, `file_write` and `file_edit`.

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::files::{EditFile, FileKind, TextEdit};
use sandbox_client::WriteOptions;
use serde::Serialize;

use super::super::page::{Opened, Page, Start};
use super::fault::Fault;
use super::schema;
use crate::Error;
use crate::toolbox::{Call, Toolbox};

/// Maximum size of a file that is read, in bytes.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum size of a file that can be edited, in bytes.
const MAX_EDIT_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes that are searched at once.
const SEARCHED_BYTES: usize = 1024 * 1024;

/// Result of `file_read`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileRead {
    ok: bool,
    path: String,
    content: String,
    size: u64,
    total_lines: u64,
    first_line: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_byte_offset: Option<u64>,
}

/// Result of `file_write`.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    ok: bool,
    path: String,
    size: u64,
}

/// Result of `file_edit`.
#[derive(Debug, Serialize)]
pub(super) struct Edited {
    ok: bool,
    path: String,
    replacements: u64,
    /// Absent if the sandbox stopped after the edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl Toolbox {
    pub(super) async fn sql_fs_read(
        &self,
        input: schema::FileRead,
        call: &Call<'_>,
    ) -> Result<FileRead, Fault> {
        let start = match (input.byte_offset, input.offset) {
            (Some(byte), _) => Start::Byte(byte),
            (None, line) => Start::Line(line.unwrap_or(1).max(1)),
        };
        let limit = input.limit.unwrap_or(u64::MAX);
        let path = &input.path;
        let read = |sandbox: SandboxId| async move {
            let size = self.client.stat_file(&sandbox, path).await.map_err(Error::about(path))?.size;
            if size > MAX_READ_BYTES {
                return Ok(None);
            }
            self.read_page(&sandbox, path, start, limit).await.map(Some)
        };
        let opened = self.in_sandbox(Some(&input.id), call, read).await;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(self.fault_of_path(&input.id, path, call, error).await),
        };
        match opened {
            Some(Opened::Text(page)) => Ok(file_read(path, page, limit)),
            Some(_) => Err(Fault::new("NOT_TEXT", "the file is not UTF-8 text").with_path(path)),
            None => {
                let message =
                    format!("the file is larger than {MAX_READ_BYTES} bytes; read it with bash_exec");
                Err(Fault::new("PAYLOAD_TOO_LARGE", message).with_path(path))
            }
        }
    }

    pub(super) async fn sql_fs_write(
        &self,
        input: schema::FileWrite,
        call: &Call<'_>,
    ) -> Result<Written, Fault> {
        let (path, content) = (&input.path, &input.content);
        let write = |sandbox: SandboxId| async move {
            let options = WriteOptions::default();
            Ok(self.client.put_file(&sandbox, path, content.clone(), options).await?.size)
        };
        match self.in_sandbox(Some(&input.id), call, write).await {
            Ok(size) => Ok(Written { ok: true, path: input.path, size }),
            Err(error) => Err(self.fault_of_path(&input.id, path, call, error).await),
        }
    }

    pub(super) async fn sql_fs_edit(
        &self,
        input: schema::FileEdit,
        call: &Call<'_>,
    ) -> Result<Edited, Fault> {
        if input.old_string == input.new_string {
            return Err(Fault::new("INVALID_INPUT", "oldString and newString must differ"));
        }
        let (path, input) = (&input.path, &input);
        let edit = |sandbox: SandboxId| async move {
            let is_all = input.replace_all.unwrap_or(false);
            let replacements = if is_all { self.count(&sandbox, path, &input.old_string).await? } else { 1 };
            let edit = TextEdit {
                old_text: input.old_string.clone(),
                new_text: input.new_string.clone(),
                replace_all: is_all.then_some(true),
            };
            let request =
                EditFile { path: path.clone(), edits: vec![edit], all_on_original: None, hide_secrets: None };
            self.client.edit_file(&sandbox, &request).await.map_err(Error::about(path))?;
            // The file was edited, even if its size is not known.
            let size = self.client.stat_file(&sandbox, path).await.map_or(None, |file| Some(file.size));
            Ok(Edited { ok: true, path: path.clone(), replacements, size })
        };
        self.in_sandbox(Some(&input.id), call, edit).await.map_err(Fault::of_file(path))
    }

    /// Number of occurrences of a text in a file.
    async fn count(&self, sandbox: &SandboxId, path: &str, text: &str) -> Result<u64, Error> {
        let mut content = self.client.get_file(sandbox, path, None).await.map_err(Error::about(path))?;
        let mut counter = Counter { text: text.as_bytes(), rest: Vec::new(), count: 0 };
        // The edit of a longer file is rejected.
        if content.total_bytes().is_none_or(|bytes| bytes > MAX_EDIT_BYTES) {
            return Ok(0);
        }
        while let Some(piece) = content.next().await {
            counter.add(&piece?);
        }
        Ok(counter.finish())
    }

    /// The failure of a call for a path, which may be one of a directory.
    async fn fault_of_path(&self, id: &str, path: &str, call: &Call<'_>, error: Error) -> Fault {
        let kind = |sandbox: SandboxId| async move { Ok(self.client.stat_file(&sandbox, path).await?.kind) };
        let is_directory = matches!(error, Error::Client { .. })
            && matches!(self.in_sandbox(Some(id), call, kind).await, Ok(FileKind::Directory));
        let fault = if is_directory { Fault::new("EISDIR", "is a directory") } else { error.into() };
        fault.with_path(path)
    }
}

fn file_read(path: &str, page: Page, limit: u64) -> FileRead {
    let mut content = page.text;
    // Lines are separated by line feeds. The last one that was requested has none.
    if page.lines >= limit && content.ends_with('\n') {
        content.pop();
    }
    FileRead {
        ok: true,
        path: path.to_owned(),
        content,
        size: page.file_bytes,
        total_lines: page.line_feeds.unwrap_or(0) + 1,
        first_line: page.first_line,
        truncated: page.is_cut,
        next_byte_offset: page.is_cut.then_some(page.next_byte),
    }
}

/// Counts the occurrences of a text in pieces of a file.
struct Counter<'a> {
    text: &'a [u8],
    /// End of the last piece, in which an occurrence may begin.
    rest: Vec<u8>,
    count: u64,
}

impl Counter<'_> {
    /// Searches only when enough bytes have come, so that a long text is not searched in each piece again.
    fn add(&mut self, piece: &[u8]) {
        self.rest.extend_from_slice(piece);
        if self.rest.len() >= self.text.len().saturating_mul(2).max(SEARCHED_BYTES) {
            self.search();
        }
    }

    fn finish(mut self) -> u64 {
        self.search();
        self.count
    }

    fn search(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let mut end = 0;
        for found in memchr::memmem::find_iter(&self.rest, self.text) {
            self.count += 1;
            end = found + self.text.len();
        }
        let begin = end.max((self.rest.len() + 1).saturating_sub(self.text.len()));
        self.rest.drain(..begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_counted_across_pieces() {
        for size in 1..9 {
            let mut counter = Counter { text: b"aab", rest: Vec::new(), count: 0 };
            for piece in b"aaabaabxaabaa".chunks(size) {
                counter.add(piece);
                counter.search();
            }
            assert_eq!(counter.finish(), 3, "{size}");
            let mut pairs = Counter { text: b"aa", rest: Vec::new(), count: 0 };
            b"aaaaa".chunks(size).for_each(|piece| pairs.add(piece));
            assert_eq!(pairs.finish(), 2, "{size}");
        }
    }
}
