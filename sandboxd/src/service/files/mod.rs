//! Files of a sandbox's workspace. Everything about a path is decided inside the sandbox.
//!
//! What is short holds the sandbox while it is done; a stream only keeps it in use, so that a delete does not wait for
//! somebody's download.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sandbox_api::SandboxId;
use tokio::sync::OwnedSemaphorePermit;

use super::Error;
use super::lifecycle::{InUseMark, Lifecycle};
use super::storage::Storage;
use crate::agent::{self, AgentHandle, ByteStream, ChangeStream, UploadError};
use crate::model::files::{
    ByteRange, Compression, Edited, FileHeader, FileInfo, FilePage, FilePath, FileTarget, Found, GlobWish,
    GrepMatch, GrepWish, ListWish, NewFile, TextEdit, Unpacked, Written,
};
use crate::model::{Refusal, Resource, limits};

/// An upload failed: here, or where it came from.
#[derive(Debug)]
pub enum UploadFailed<E> {
    /// Here.
    Service(Error),
    /// Its source.
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
}

impl Files {
    pub(in crate::service) fn new(lifecycle: &Arc<Lifecycle>, storage: &Arc<Storage>) -> Self {
        Self { lifecycle: Arc::clone(lifecycle), storage: Arc::clone(storage) }
    }

    /// Writes all of the files or none.
    pub async fn write_all(&self, id: &SandboxId, mut files: Vec<NewFile>) -> Result<(), Error> {
        self.storage.check_space(files.iter().map(|file| file.content.len() as u64).sum()).await?;
        if self.storage.is_space_tight() {
            files.iter_mut().for_each(|file| file.target.durable = true);
        }
        Ok(self.lifecycle.in_use(id).await?.agent().write_files(files).await?)
    }

    /// A whole file; `None` where there is none.
    pub async fn read_whole(&self, id: &SandboxId, path: FilePath) -> Result<Option<Bytes>, Error> {
        match self.lifecycle.in_use(id).await?.agent().read_whole(path, limits::MAX_READ_BYTES).await {
            Err(agent::Error::Refused(Refusal::NotFound(Resource::File))) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Writes one file of any size.
    pub async fn write<E: Send + 'static>(
        &self,
        id: &SandboxId,
        mut target: FileTarget,
        content: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Written, UploadFailed<E>> {
        self.storage.check_space(0).await?;
        target.durable |= self.storage.is_space_tight();
        let (agent, _held) = self.for_long(id).await?;
        self.storage.while_space_lasts(async { Ok(agent.write_file(target, content).await?) }).await
    }

    /// Reads a file, or a part of it.
    pub async fn read(
        &self,
        id: &SandboxId,
        path: FilePath,
        range: Option<ByteRange>,
    ) -> Result<(FileHeader, ByteStream), Error> {
        let (agent, held) = self.for_long(id).await?;
        let (header, bytes) = agent.read_file(path, 0, range).await?;
        Ok((header, holding(bytes, held)))
    }

    /// What a path names, without following it.
    pub async fn stat(&self, id: &SandboxId, path: FilePath) -> Result<FileInfo, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().stat_file(path).await?)
    }

    /// A page of what is in a directory.
    pub async fn list(&self, id: &SandboxId, wish: ListWish) -> Result<FilePage, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().list_files(wish).await?)
    }

    /// Makes a directory and what is missing above it; whether there was none.
    pub async fn make_dir(&self, id: &SandboxId, path: FilePath) -> Result<bool, Error> {
        Ok(self.lifecycle.in_use(id).await?.agent().make_dir(path).await?)
    }

    /// Gives a file or directory another path.
    pub async fn rename(
        &self,
        id: &SandboxId,
        from: FilePath,
        to: FilePath,
        overwrite: bool,
    ) -> Result<(), Error> {
        self.lifecycle.in_use(id).await?.agent().move_file(from, to, overwrite).await.map_err(|error| {
            match error {
                agent::Error::Refused(Refusal::NotEmpty { path }) => Error::NotReplaced { path },
                error => error.into(),
            }
        })
    }

    /// Removes a file or directory, with `if_match` only one with this etag; how many that were.
    pub async fn delete(
        &self,
        id: &SandboxId,
        path: FilePath,
        recursive: bool,
        if_match: Option<String>,
    ) -> Result<u64, Error> {
        let (agent, _held) = self.for_long(id).await?;
        Ok(agent.delete_file(path, recursive, if_match).await?)
    }

    /// Replaces texts in a file: all of them or none.
    pub async fn edit(&self, id: &SandboxId, path: FilePath, edits: Vec<TextEdit>) -> Result<Edited, Error> {
        self.storage.check_space(0).await?;
        Ok(self.lifecycle.in_use(id).await?.agent().edit_file(path, edits).await?)
    }

    /// Packs what is at a path.
    pub async fn pack(
        &self,
        id: &SandboxId,
        path: FilePath,
        compression: Compression,
    ) -> Result<ByteStream, Error> {
        let (agent, held) = self.for_long(id).await?;
        Ok(holding(agent.pack(path, compression).await?, held))
    }

    /// Unpacks an archive into a directory: all of it or nothing.
    pub async fn unpack<E: Send + 'static>(
        &self,
        id: &SandboxId,
        path: FilePath,
        archive: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Unpacked, UploadFailed<E>> {
        self.storage.check_space(0).await?;
        let (agent, _held) = self.for_long(id).await?;
        self.storage.while_space_lasts(async { Ok(agent.unpack(path, archive).await?) }).await
    }

    /// Changes beneath a path, until the stream is dropped.
    pub async fn watch(
        &self,
        id: &SandboxId,
        path: FilePath,
        recursive: bool,
    ) -> Result<ChangeStream, Error> {
        let (agent, held) = self.for_long(id).await?;
        Ok(holding(agent.watch_files(path, recursive).await?, held))
    }

    /// Lines that match.
    pub async fn grep(&self, id: &SandboxId, wish: GrepWish) -> Result<Found<GrepMatch>, Error> {
        let (agent, _held) = self.for_long(id).await?;
        Ok(agent.grep(wish).await?)
    }

    /// Files and directories with a fitting path.
    pub async fn glob(&self, id: &SandboxId, wish: GlobWish) -> Result<Found<FileInfo>, Error> {
        let (agent, _held) = self.for_long(id).await?;
        Ok(agent.glob(wish).await?)
    }

    /// The agent for what may take long: it keeps the sandbox in use and nobody from deleting it.
    async fn for_long(&self, id: &SandboxId) -> Result<(AgentHandle, Held), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let permit = in_use.sandbox().reader()?;
        let (_, agent, mark) = in_use.unlock();
        Ok((agent, Held { _mark: mark, _permit: permit }))
    }
}

/// What a stream keeps until it is dropped.
struct Held {
    _mark: InUseMark,
    _permit: OwnedSemaphorePermit,
}

fn holding<T: Send + 'static>(stream: BoxStream<'static, T>, held: Held) -> BoxStream<'static, T> {
    stream
        .map(move |item| {
            let _ = &held;
            item
        })
        .boxed()
}
