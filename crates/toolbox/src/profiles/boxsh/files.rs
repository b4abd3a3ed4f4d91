//! `read`, `write` and `edit`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::SandboxId;
use sandbox_client::WriteOptions;

use super::super::page::{Opened, Page, Start};
use super::schema::{self, Encoding, FileRead};
use crate::files::DEFAULT_LINES;
use crate::images::Shown;
use crate::toolbox::Toolbox;
use crate::{Error, Reply, input};

impl Toolbox {
    pub(super) async fn boxsh_read(&self, sandbox: &SandboxId, input: schema::Read) -> Result<Reply, Error> {
        let (offset, limit) = (input.offset.unwrap_or(1), input.limit.unwrap_or(DEFAULT_LINES));
        for (field, value) in [("offset", offset), ("limit", limit)] {
            if value == 0 {
                return Err(Error::Argument { field, problem: "must be at least 1".into() });
            }
        }
        match self.read_page(sandbox, &input.path, Start::Line(offset), limit).await? {
            Opened::Text(page) if page.text.contains('\0') => Ok(other_file(page.file_bytes)),
            Opened::Text(page) => Ok(text(page)),
            Opened::Image { format, begin, rest } => {
                let bytes = rest.total_bytes().unwrap_or(0);
                let shown = self.read_image(&input.path, format, begin, rest).await?;
                Ok(image(&shown, bytes))
            }
            Opened::Binary { bytes } => Ok(other_file(bytes)),
        }
    }

    pub(super) async fn boxsh_write(
        &self,
        sandbox: &SandboxId,
        input: schema::Write,
    ) -> Result<Reply, Error> {
        let content = match input.encoding {
            Some(Encoding::Base64) => BASE64_STANDARD.decode(&input.content).map_err(|error| {
                Error::Argument { field: "content", problem: format!("is not base64: {error}") }
            })?,
            _ => input.content.into_bytes(),
        };
        let written = self.client.put_file(sandbox, &input.path, content, WriteOptions::default()).await?;
        let text = format!("written {} bytes", written.size);
        Ok(Reply::text(text))
    }

    pub(super) async fn boxsh_edit(&self, sandbox: &SandboxId, input: schema::Edit) -> Result<Reply, Error> {
        let edits = input.edits.into_iter().map(|edit| input::Replacement {
            old_text: edit.old_text,
            new_text: edit.new_text,
            replace_all: None,
        });
        let input = input::Edit { path: input.path, edits: edits.collect() };
        let edited = self.edited(sandbox, input).await?;
        let result = schema::Edited { diff: edited.diff, first_changed_line: edited.first_changed_line };
        Ok(Reply::new("OK".into(), &result))
    }
}

fn text(page: Page) -> Reply {
    let mut text = page.text.clone();
    let next = page.first_line + page.lines;
    if page.is_cut_in_line {
        text += &format!("\n[the end of line {} is not shown]", next - 1);
    }
    let result = FileRead {
        encoding: "text".into(),
        mime_type: "text/plain".into(),
        line_count: Some(page.lines),
        truncated: Some(page.has_more),
        total_lines: page
            .line_feeds
            .filter(|_| page.has_more)
            .map(|count| count + u64::from(page.ends_in_line)),
        next_offset: page.has_more.then_some(next),
        content: Some(page.text),
        ..FileRead::default()
    };
    Reply::new(text, &result)
}

fn image(shown: &Shown, bytes: u64) -> Reply {
    let ((original_width, original_height), (width, height)) = (shown.original, shown.shown);
    let was_resized = shown.original != shown.shown;
    let mut text = format!("[Image: {}, {width}x{height}", shown.mime_type());
    if was_resized {
        text += &format!(", resized from {original_width}x{original_height}");
    }
    text.push(']');
    let result = FileRead {
        encoding: "image".into(),
        mime_type: shown.mime_type().into(),
        width: Some(width),
        height: Some(height),
        original_width: Some(original_width),
        original_height: Some(original_height),
        was_resized: Some(was_resized),
        size: Some(bytes),
        ..FileRead::default()
    };
    let mut reply = Reply::new(text, &result);
    reply.blocks.push(shown.block());
    reply
}

/// The result for a file that is neither text nor an image.
fn other_file(bytes: u64) -> Reply {
    let mime_type = "application/octet-stream";
    let text = format!("[Binary file: {mime_type}, {bytes} bytes]");
    let result = FileRead {
        encoding: "metadata".into(),
        mime_type: mime_type.into(),
        size: Some(bytes),
        ..FileRead::default()
    };
    Reply::new(text, &result)
}
