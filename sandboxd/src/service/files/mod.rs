//! Files of a sandbox's workspace.
//!
//! Paths are resolved and checked inside the sandbox. A short operation holds the sandbox's order lock. A long one, such as
//! a download, only keeps the sandbox in use, so that a delete does not wait for it.

mod hidden;
mod stream;

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use sandbox_api::SandboxId;

pub use self::hidden::SecretValues;
pub use self::stream::FileStream;
use self::stream::LongUse;
use super::Error;
use super::lifecycle::{Lifecycle, Sandbox};
use super::snapshots::Snapshots;
use super::storage::Storage;
use crate::agent::{self, AgentHandle, UploadError};
use crate::model::files::{
    ByteRange, Change, Compression, Edited, FileHeader, FileInfo, FilePage, FilePath, FileTarget, Found,
    GlobOptions, GrepMatch, GrepOptions, ListOptions, NewFile, TextEdits, Unpacked, Written,
};
use crate::model::{FileRefusal, Refusal, Resource, limits};
use crate::service::Authorized;

/// Error of an upload.
#[derive(Debug)]
pub enum UploadFailed<E> {
    /// The service failed.
    Service(Error),
    /// The content could not be read from its source.
    Source(E),
}

impl<E> From<Error> for UploadFailed<E> {
    fn from(error: Error) -> Self {
        Self::Service(error)
    }
}

impl<E> From<UploadError<E>> for UploadFailed<E> {
    fn from(error: UploadError<E>) -> Self {
        match error {
            UploadError::Agent(error) => Self::Service(error.into()),
            UploadError::Source(error) => Self::Source(error),
        }
    }
}

/// Reads and writes files.
#[derive(Debug)]
pub struct Files {
    lifecycle: Arc<Lifecycle>,
    storage: Arc<Storage>,
    snapshots: Arc<Snapshots>,
}

impl Files {
    pub(in crate::service) fn new(
        lifecycle: &Arc<Lifecycle>,
        storage: &Arc<Storage>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            lifecycle: Arc::clone(lifecycle),
            storage: Arc::clone(storage),
            snapshots: Arc::clone(snapshots),
        }
    }

    /// Writes all files or none.
    pub async fn write_all(&self, id: &Authorized<SandboxId>, mut files: Vec<NewFile>) -> Result<(), Error> {
        self.storage.check_space(files.iter().map(|file| file.content.len() as u64).sum()).await?;
        if self.storage.is_space_tight() {
            files.iter_mut().for_each(|file| file.target.durable = true);
        }
        let in_use = self.lifecycle.in_use(id).await?;
        in_use.agent().write_files(files).await?;
        self.snapshots.note_files(in_use.sandbox());
        Ok(())
    }

    /// Reads a whole file. `None` if it does not exist.
    pub async fn read_whole(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
    ) -> Result<Option<Bytes>, Error> {
        match self.lifecycle.in_use(id).await?.agent().read_whole(path, limits::MAX_READ_BYTES).await {
            Err(agent::Error::Refused(Refusal::NotFound(Resource::File))) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Writes one file of any size.
    pub async fn write<E: Send + 'static>(
        &self,
        id: &Authorized<SandboxId>,
        mut target: FileTarget,
        content: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Written, UploadFailed<E>> {
        self.storage.check_space(0).await?;
        target.durable |= self.storage.is_space_tight();
        let (sandbox, agent, _guard) = self.begin_long_change(id).await?;
        let written =
            self.storage.while_space_lasts(async { Ok(agent.write_file(target, content).await?) }).await;
        self.snapshots.note_files(&sandbox);
        written
    }

    /// Reads a file, or a part of it.
    pub async fn read(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        range: Option<ByteRange>,
    ) -> Result<(FileHeader, FileStream<Bytes>), Error> {
        let (agent, guard) = self.begin_long_use(id).await?;
        let (header, bytes) = agent.read_file(path, 0, range).await?;
        Ok((header, FileStream::new(bytes, guard)))
    }

    /// Reads a whole file without the values of secret variables. Returns also whether there are any to replace: the content
    /// then differs from the file.
    pub async fn read_hidden(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
    ) -> Result<(FileHeader, FileStream<Bytes>, bool), Error> {
        let (sandbox, agent, guard) = self.begin_long_change(id).await?;
        let (header, bytes) = agent.read_file(path, 0, None).await?;
        let values = SecretValues::Hidden.of(&sandbox);
        let has_any = values.is_some();
        let shown = match values {
            Some(values) => values.in_stream(bytes),
            None => bytes,
        };
        Ok((header, FileStream::new(shown, guard), has_any))
    }

    /// Inspects a path. A symbolic link is not followed.
    pub async fn stat(&self, id: &Authorized<SandboxId>, path: FilePath) -> Result<FileInfo, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().stat_file(path).await?)
    }

    /// Lists one page of a directory.
    pub async fn list(&self, id: &Authorized<SandboxId>, request: ListOptions) -> Result<FilePage, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().list_files(request).await?)
    }

    /// Creates a directory and its missing parents. Returns whether it was created.
    pub async fn make_dir(&self, id: &Authorized<SandboxId>, path: FilePath) -> Result<bool, Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let made = in_use.agent().make_dir(path).await?;
        self.snapshots.note_files(in_use.sandbox());
        Ok(made)
    }

    /// Moves a file or directory.
    pub async fn rename(
        &self,
        id: &Authorized<SandboxId>,
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    ) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        in_use.agent().move_file(from, to, overwrite).await.map_err(|error| match error {
            agent::Error::Refused(Refusal::File(FileRefusal::NotEmpty { path })) => {
                Error::NotReplaced { path }
            }
            error => error.into(),
        })?;
        self.snapshots.note_files(in_use.sandbox());
        Ok(())
    }

    /// Deletes a file or directory. With `if_match`, it must have this etag. Returns the number of deleted entries.
    pub async fn delete(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        recursive: bool,
        if_match: Option<String>,
    ) -> Result<u64, Error> {
        let (sandbox, agent, _guard) = self.begin_long_change(id).await?;
        let deleted = agent.delete_file(path, recursive, if_match).await;
        // Also after an error: a part may be deleted.
        self.snapshots.note_files(&sandbox);
        Ok(deleted?)
    }

    /// Applies all edits to a file or none.
    pub async fn edit(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        edits: TextEdits,
        secrets: SecretValues,
    ) -> Result<Edited, Error> {
        self.storage.check_space(0).await?;
        let in_use = self.lifecycle.in_use(id).await?;
        let edited = in_use.agent().edit_file(path, edits).await?;
        self.snapshots.note_files(in_use.sandbox());
        Ok(match secrets.of(in_use.sandbox()) {
            Some(values) => values.in_edited(edited),
            None => edited,
        })
    }

    /// Packs a directory or file into an archive.
    pub async fn pack(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        compression: Compression,
    ) -> Result<FileStream<Bytes>, Error> {
        let (agent, guard) = self.begin_long_use(id).await?;
        Ok(FileStream::new(agent.pack(path, compression).await?, guard))
    }

    /// Unpacks the whole archive into a directory, or nothing.
    pub async fn unpack<E: Send + 'static>(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        archive: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Unpacked, UploadFailed<E>> {
        self.storage.check_space(0).await?;
        let (sandbox, agent, _guard) = self.begin_long_change(id).await?;
        let unpacked = self.storage.while_space_lasts(async { Ok(agent.unpack(path, archive).await?) }).await;
        self.snapshots.note_files(&sandbox);
        unpacked
    }

    /// Streams changes at and below a path until the stream is dropped.
    pub async fn watch(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        recursive: bool,
    ) -> Result<FileStream<Vec<Change>>, Error> {
        let (agent, guard) = self.begin_long_use(id).await?;
        Ok(FileStream::new(agent.watch_files(path, recursive).await?, guard))
    }

    /// Streams changes like [`watch`](Self::watch), without using the sandbox: the watch ends when the sandbox is parked.
    /// `None` if it is parked already.
    pub async fn watch_passively(
        &self,
        id: &Authorized<SandboxId>,
        path: FilePath,
        recursive: bool,
    ) -> Result<Option<FileStream<Vec<Change>>>, Error> {
        let Some(agent) = self.lifecycle.agent_unless_parked(id).await? else { return Ok(None) };
        let permit = self.lifecycle.find(id)?.reader()?;
        let changes = agent.watch_files(path, recursive).await?;
        Ok(Some(FileStream::new(changes, LongUse::passive(permit))))
    }

    /// Searches file contents.
    pub async fn grep(
        &self,
        id: &Authorized<SandboxId>,
        request: GrepOptions,
        secrets: SecretValues,
    ) -> Result<Found<GrepMatch>, Error> {
        let (sandbox, agent, _guard) = self.begin_long_change(id).await?;
        let mut found = agent.grep(request).await?;
        if let Some(values) = secrets.of(&sandbox) {
            found.results = found.results.into_iter().map(|found| values.in_match(found)).collect();
        }
        Ok(found)
    }

    /// Searches files and directories by their paths.
    pub async fn glob(
        &self,
        id: &Authorized<SandboxId>,
        request: GlobOptions,
        secrets: SecretValues,
    ) -> Result<Found<FileInfo>, Error> {
        let (sandbox, agent, _guard) = self.begin_long_change(id).await?;
        let mut found = agent.glob(request).await?;
        if let Some(values) = secrets.of(&sandbox) {
            found.results = found.results.into_iter().map(|info| values.in_info(info)).collect();
        }
        Ok(found)
    }

    /// Returns the agent for a long operation. The guard keeps the sandbox in use, and does not block its deletion.
    async fn begin_long_use(&self, id: &SandboxId) -> Result<(AgentHandle, LongUse), Error> {
        self.begin_long_change(id).await.map(|(_, agent, guard)| (agent, guard))
    }

    /// As [`Self::begin_long_use`], for an operation that changes files.
    async fn begin_long_change(&self, id: &SandboxId) -> Result<(Arc<Sandbox>, AgentHandle, LongUse), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let permit = in_use.sandbox().reader()?;
        let (sandbox, agent, mark) = in_use.unlock();
        Ok((sandbox, agent, LongUse::new(mark, permit)))
    }
}
