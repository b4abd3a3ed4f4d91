//! Files: `read`, `write` and `edit`.

use std::time::Duration;

use futures::StreamExt;
use image::ImageFormat;
use output_text::{Excerpt, Keep};
use sandbox_api::SandboxId;
use sandbox_api::files::{EditFile, TextEdit};
use sandbox_client::{FileContent, WriteOptions};
use tokio::time::timeout;

use crate::images::{self, Images, MAX_IMAGE_FILE_BYTES, Shown};
use crate::toolbox::Toolbox;
use crate::{Error, Reply, input, output};

/// Lines of a result if the call has no limit.
pub(crate) const DEFAULT_LINES: u64 = 2000;

/// Maximum number of characters of a file in a result.
pub(crate) const MAX_FILE_CHARS: usize = 30_000;

/// How far into a file lines are counted. Further lines are better read with `sed -n`.
pub(crate) const MAX_SCAN_BYTES: u64 = 256 * 1024 * 1024;

/// Time in which a file with an image must be read.
const IMAGE_FILE: Duration = Duration::from_secs(20);

/// Maximum number of characters of a diff in a result.
const MAX_DIFF_CHARS: usize = 20_000;

impl Toolbox {
    pub(crate) async fn read(&self, sandbox: &SandboxId, input: input::Read) -> Result<Reply, Error> {
        let (offset, limit) = (input.offset.unwrap_or(1), input.limit.unwrap_or(DEFAULT_LINES));
        for (field, value) in [("offset", offset), ("limit", limit)] {
            if value == 0 {
                return Err(Error::Argument { field, problem: "must be at least 1".into() });
            }
        }
        let mut content = self
            .client
            .get_file_without_secrets(sandbox, &input.path)
            .await
            .map_err(Error::about(&input.path))?;
        let file_bytes = content.total_bytes().unwrap_or(0);
        let mut lines = Lines::new(offset, limit);
        let mut scanned = 0;
        let mut is_all = true;
        while let Some(piece) = content.next().await {
            let piece = piece?;
            if scanned == 0
                && let Some(format) = images::format_of(&piece)
            {
                let shown = self.read_image(&input.path, format, piece.into(), content).await?;
                return Ok(shown.reply(&input.path));
            }
            if scanned == 0 && piece.contains(&0) {
                return Err(Error::NotText { path: input.path, bytes: file_bytes });
            }
            scanned += piece.len() as u64;
            if lines.add(&piece) {
                is_all = false;
                break;
            }
            // The count of what is not shown is then too low.
            if scanned > MAX_SCAN_BYTES && lines.is_too_long() {
                is_all = false;
                break;
            }
            if scanned > MAX_SCAN_BYTES {
                let problem =
                    format!("is more than {MAX_SCAN_BYTES} bytes into the file: use bash (`sed -n`)");
                return Err(Error::Argument { field: "offset", problem });
            }
        }
        let total = lines.lines_seen();
        if is_all && offset > total.max(1) {
            return Err(Error::NoLine { path: input.path, offset, lines: total });
        }
        let (content, next_offset, cut_chars) = lines.finish(is_all);
        let at_least = if scanned > MAX_SCAN_BYTES { "at least " } else { "" };
        let text = match (next_offset, cut_chars) {
            (Some(next), Some(cut)) => {
                format!(
                    "{content}\n[{cut} characters of this line are not shown; continue with offset {next}]"
                )
            }
            (None, Some(cut)) => {
                format!("{content}\n[{at_least}{cut} characters of this line are not shown]")
            }
            (Some(next), None) => format!("{content}[more lines follow: continue with offset {next}]"),
            (None, None) => content.clone(),
        };
        let result = output::FileText { content, first_line: offset, next_offset, cut_chars, file_bytes };
        Ok(Reply::new(text, &result))
    }

    /// Reads the rest of an image file.
    pub(crate) async fn read_image(
        &self,
        path: &str,
        format: ImageFormat,
        mut file: Vec<u8>,
        mut content: FileContent,
    ) -> Result<Shown, Error> {
        let permit = self.images().permit().await;
        let fail = |problem: String| Error::Image { path: path.to_owned(), problem };
        let rest = async {
            while let Some(piece) = content.next().await {
                file.extend_from_slice(&piece?);
                if file.len() > MAX_IMAGE_FILE_BYTES {
                    return Err(fail(format!("it is longer than {MAX_IMAGE_FILE_BYTES} bytes")));
                }
            }
            Ok(())
        };
        // Other images wait meanwhile.
        timeout(IMAGE_FILE, rest).await.map_err(|_| fail("it could not be read in time".into()))??;
        Images::prepare(path, format, file, permit).await
    }

    pub(crate) async fn write(&self, sandbox: &SandboxId, input: input::Write) -> Result<Reply, Error> {
        let written =
            self.client.put_file(sandbox, &input.path, input.content, WriteOptions::default()).await?;
        let verb = if written.created { "Created" } else { "Replaced" };
        let text = format!("{verb} {} ({} bytes).", input.path, written.size);
        let result = output::Written { path: input.path, bytes: written.size, created: written.created };
        Ok(Reply::new(text, &result))
    }

    pub(crate) async fn edit(&self, sandbox: &SandboxId, input: input::Edit) -> Result<Reply, Error> {
        let result = self.edited(sandbox, input).await?;
        let text = if result.diff.is_empty() { "Nothing changed.".to_owned() } else { result.diff.clone() };
        Ok(Reply::new(text, &result))
    }

    /// Applies edits, all of them to the file as it was.
    pub(crate) async fn edited(
        &self,
        sandbox: &SandboxId,
        input: input::Edit,
    ) -> Result<output::Edited, Error> {
        let edits = input.edits.into_iter().map(|edit| TextEdit {
            old_text: edit.old_text,
            new_text: edit.new_text,
            replace_all: edit.replace_all,
        });
        let edits: Vec<_> = edits.collect();
        // With one edit, both orders mean the same, and older agents know only one.
        let all_on_original = (edits.len() > 1).then_some(true);
        let request = EditFile { path: input.path, edits, all_on_original, hide_secrets: Some(true) };
        let edited = self.client.edit_file(sandbox, &request).await.map_err(Error::about(&request.path))?;
        let mut diff = Excerpt::new(Keep::Both, MAX_DIFF_CHARS);
        diff.push(edited.diff.as_bytes());
        diff.finish();
        let diff = diff.shown().with_notice(None);
        Ok(output::Edited { diff, first_changed_line: edited.first_changed_line })
    }
}

/// Number of characters that begin in these bytes.
fn characters(bytes: &[u8]) -> u64 {
    let begins = |byte: &&u8| !matches!(**byte, b'\n' | 0x80..=0xbf);
    bytes.iter().filter(begins).count() as u64
}

/// Collects the requested lines of a file.
struct Lines {
    first: u64,
    /// Number of the line after the last requested one.
    end: u64,
    /// Number of the current line.
    line: u64,
    /// Whether the current line has begun.
    has_begun: bool,
    kept: Vec<u8>,
    /// Number of complete lines in `kept`.
    kept_lines: u64,
    /// Characters of the first line that are not in `kept`, because the line is longer than a result.
    more_chars: u64,
    /// Whether more lines follow that one.
    has_more: bool,
}

impl Lines {
    fn new(first: u64, limit: u64) -> Self {
        Self {
            first,
            end: first.saturating_add(limit),
            line: 1,
            has_begun: false,
            kept: Vec::new(),
            kept_lines: 0,
            more_chars: 0,
            has_more: false,
        }
    }

    /// Adds bytes. Returns true if no more are needed.
    fn add(&mut self, bytes: &[u8]) -> bool {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.is_too_long() {
                if !self.has_begun {
                    self.has_more = true;
                    return true;
                }
                self.more_chars += characters(part);
            } else if self.line >= self.end || self.is_full() {
                return true;
            } else if self.line >= self.first {
                self.kept.extend_from_slice(part);
                self.kept_lines += u64::from(part.ends_with(b"\n"));
            }
            self.has_begun = !part.ends_with(b"\n");
            self.line += u64::from(!self.has_begun);
        }
        self.is_full() && !self.is_too_long()
    }

    /// Whether the first line alone has more characters than a result can have. The rest of it is counted.
    fn is_too_long(&self) -> bool {
        let before_last = self.kept_lines - u64::from(self.kept.ends_with(b"\n"));
        self.is_full() && before_last == 0
    }

    /// Whether there are more characters than a result can have.
    fn is_full(&self) -> bool {
        self.kept.len() > MAX_FILE_CHARS * 4
    }

    /// Number of lines so far, including an unfinished last line.
    fn lines_seen(&self) -> u64 {
        self.line - 1 + u64::from(self.has_begun)
    }

    /// Returns the text that fits, the number of the next line, and the characters of the last line that did not fit.
    fn finish(self, is_all: bool) -> (String, Option<u64>, Option<u64>) {
        let text = String::from_utf8_lossy(&self.kept);
        let Some((cut, _)) = text.char_indices().nth(MAX_FILE_CHARS) else {
            let next = (!is_all).then_some(self.line);
            return (text.into_owned(), next, None);
        };
        // Complete lines, if at least one fits.
        if let Some(end) = text[..cut].rfind('\n') {
            let shown = &text[..=end];
            let next = self.first + shown.matches('\n').count() as u64;
            return (shown.to_owned(), Some(next), None);
        }
        let rest = &text[cut..];
        let (line, has_more) = match rest.find('\n') {
            Some(end) if !self.is_too_long() => (&rest[..end], rest.len() > end + 1 || !is_all),
            Some(end) => (&rest[..end], self.has_more),
            None => (rest, self.has_more),
        };
        let next = has_more.then_some(self.first + 1);
        (text[..cut].to_owned(), next, Some(line.chars().count() as u64 + self.more_chars))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, first: u64, limit: u64) -> (String, Option<u64>, Option<u64>) {
        let mut lines = Lines::new(first, limit);
        let mut is_all = true;
        for piece in text.as_bytes().chunks(7) {
            if lines.add(piece) {
                is_all = false;
                break;
            }
        }
        lines.finish(is_all)
    }

    #[test]
    fn lines_are_read_in_parts() {
        let text = "one\ntwo\nthree\nfour";
        assert_eq!(read(text, 1, 9), (text.into(), None, None));
        assert_eq!(read(text, 1, 2), ("one\ntwo\n".into(), Some(3), None));
        assert_eq!(read(text, 3, 2), ("three\nfour".into(), None, None));
        assert_eq!(read("", 1, 1), (String::new(), None, None));
    }

    #[test]
    fn a_long_file_is_cut_between_lines() {
        let text = "é".repeat(99).to_string() + "\n";
        let (shown, next, cut) = read(&text.repeat(1000), 1, 5000);
        assert_eq!((shown.chars().count(), next, cut), (MAX_FILE_CHARS, Some(301), None));
    }

    #[test]
    fn a_long_line_is_cut() {
        let text = format!("{}\nnext\n", "x".repeat(MAX_FILE_CHARS + 5));
        let (shown, next, cut) = read(&text, 1, 9);
        assert_eq!((shown.len(), next, cut), (MAX_FILE_CHARS, Some(2), Some(5)));
        let (_, next, cut) = read(text.trim_end_matches("\nnext\n"), 1, 9);
        assert_eq!((next, cut), (None, Some(5)));
        // All of it is counted, also beyond what is kept.
        let long = "é".repeat(MAX_FILE_CHARS * 9);
        let cut = (MAX_FILE_CHARS * 8) as u64;
        for (end, next) in [("", None), ("\n", None), ("\nnext", Some(2)), ("\nnext\nand\n", Some(2))] {
            let (shown, found_next, found_cut) = read(&format!("{long}{end}"), 1, 9);
            assert_eq!((shown.chars().count(), found_next, found_cut), (MAX_FILE_CHARS, next, Some(cut)));
        }
    }
}
