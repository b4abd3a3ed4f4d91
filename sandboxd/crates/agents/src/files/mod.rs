//! Files: calls to the agent.
//!
//! Long contents are streams: [`transfer`] has these, [`search`] has the searches, and [`wire`] the conversions
//! between the protocol and the model.

mod search;
mod transfer;
mod wire;

use agent_protocol::{CONDITIONAL_DELETE_SINCE, EDITS_OF_ORIGINAL_SINCE, v1};
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;

pub(super) use transfer::send;
pub use transfer::{ByteStream, ChangeStream, UploadError};

use self::search::Bounds;
use super::command::within;
use super::{AgentHandle, Error};
use sandboxd_model::files::{Edited, FileInfo, FilePage, FilePath, ListOptions, TextEdits};
use sandboxd_model::limits;

impl AgentHandle {
    /// Reads a whole file of at most `max_bytes`.
    pub async fn read_whole(&self, path: FilePath, max_bytes: u64) -> Result<Bytes, Error> {
        let read = async {
            let (header, mut chunks) = self.read_file(path, max_bytes, None).await?;
            let mut content = BytesMut::with_capacity(header.length.min(max_bytes) as usize);
            while let Some(chunk) = chunks.try_next().await? {
                content.extend_from_slice(&chunk);
            }
            Ok(content.freeze())
        };
        // The time limit is for the whole file, not for each piece.
        tokio::time::timeout(limits::FILE_TRANSFER, read)
            .await
            .map_err(|_| Error::Deadline { after: limits::FILE_TRANSFER })?
    }

    /// Metadata of the entry at a path. Does not follow links.
    pub async fn stat_file(&self, path: FilePath) -> Result<FileInfo, Error> {
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.stat(v1::PathRef { path: path.0 })).await?;
        wire::info(reply.into_inner())
    }

    /// A page of the entries of a directory.
    pub async fn list_files(&self, options: ListOptions) -> Result<FilePage, Error> {
        let ListOptions { path, depth, limit, after } = options;
        let request = v1::ListRequest { path: path.0, depth, limit, after };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let list = async {
            let mut messages = client.list(request).await?.into_inner();
            let (mut entries, mut more, mut bounds) = (Vec::new(), false, Bounds::new(limit));
            while let Some(listed) = messages.try_next().await? {
                bounds.check(listed.entries.len(), &listed)?;
                more = listed.more;
                entries.extend(listed.entries);
            }
            Ok((entries, more))
        };
        let (entries, more) = within(limits::AGENT_CALL, list).await?;
        let entries: Result<_, Error> = entries.into_iter().map(wire::info).collect();
        Ok(FilePage { entries: entries?, more })
    }

    /// Creates a directory. Returns whether it did not exist before.
    pub async fn make_dir(&self, path: FilePath) -> Result<bool, Error> {
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.make_dir(v1::PathRef { path: path.0 })).await?;
        Ok(reply.into_inner().created)
    }

    /// Moves a file or directory.
    pub async fn move_file(&self, from: FilePath, to: FilePath, overwrite: bool) -> Result<(), Error> {
        let request = v1::MoveRequest { from: from.0, to: to.0, overwrite };
        let mut client = self.files_client(limits::AGENT_ABSENCE).await?;
        within(limits::AGENT_CALL, client.r#move(request)).await?;
        Ok(())
    }

    /// Removes a file or directory, with `if_match` only one with this etag. Returns the number of removed entries.
    pub async fn delete_file(
        &self,
        path: FilePath,
        recursive: bool,
        if_match: Option<String>,
    ) -> Result<u64, Error> {
        let since = if if_match.is_some() { CONDITIONAL_DELETE_SINCE } else { 0 };
        let mut client = self.files_client_since(since, limits::AGENT_ABSENCE).await?;
        let request = v1::DeleteRequest { path: path.0, recursive, if_match };
        let reply = within(limits::FILE_TRANSFER, client.delete(request)).await?;
        Ok(reply.into_inner().removed)
    }

    /// Replaces texts in a file.
    pub async fn edit_file(&self, path: FilePath, edits: TextEdits) -> Result<Edited, Error> {
        let TextEdits { edits, all_on_original } = edits;
        let edits = edits.into_iter().map(wire::text_edit).collect();
        let since = if all_on_original { EDITS_OF_ORIGINAL_SINCE } else { 0 };
        let mut client = self.files_client_since(since, limits::AGENT_ABSENCE).await?;
        let edit = async {
            let request = v1::EditRequest { path: path.0, edits, all_on_original };
            let mut messages = client.edit(request).await?.into_inner();
            let mut edited = Edited::default();
            let mut diff = BytesMut::new();
            while let Some(reply) = messages.try_next().await? {
                if !reply.etag.is_empty() {
                    (edited.etag, edited.first_changed_line) = (reply.etag, reply.first_changed_line);
                }
                if diff.len() + reply.diff.len() > limits::MAX_DIFF_BYTES {
                    return Err(tonic::Status::out_of_range("more than was requested"));
                }
                diff.extend_from_slice(&reply.diff);
            }
            edited.diff = diff.freeze();
            Ok(edited)
        };
        within(limits::AGENT_CALL, edit).await
    }
}
