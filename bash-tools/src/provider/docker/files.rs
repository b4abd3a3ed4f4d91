//! Files of a sandbox of sandboxd.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::files::{self as wire, FileInfo};
use sandbox_api::{ErrorBody, ErrorCode};
use sandbox_client::{ByteRange, Client, WriteOptions, upload_stream};

use super::{Docker, fault, id, within};
use crate::provider::{Content, Download, Error, FileEntry, FileKind, FileList, FilePart, Result, SandboxId};

/// Deadline for reading or writing one whole file.
const TRANSFER: Duration = Duration::from_secs(120);

/// Deadline for a streamed file, which may use a slow connection.
const STREAM: Duration = Duration::from_secs(15 * 60);

/// Maximum number of entries of a page.
const PAGE: u32 = 500;

impl Docker {
    pub(super) async fn read_part(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart> {
        let last = offset.saturating_add(max_bytes as u64).saturating_sub(1);
        let id = &id(sandbox)?;
        let read = |client: Client| async move {
            let content = client.get_file(id, path, Some(ByteRange::Span(offset, last))).await?;
            let (total_bytes, etag) = (content.total_bytes(), content.etag().map(str::to_owned));
            let bytes = content.bytes(max_bytes).await?.into();
            Ok::<_, sandbox_client::Error>(FilePart { bytes, total_bytes, etag })
        };
        match within(TRANSFER, self.subjects.call(sandbox.subject(), read)).await? {
            Ok(part) => Ok(part),
            Err(error) if error.code() == Some(ErrorCode::RangeNotSatisfiable) => {
                Ok(FilePart { bytes: Bytes::new(), total_bytes: reported_size(&error), etag: None })
            }
            Err(error) => Err(fault_of_file(error, path)),
        }
    }

    pub(super) async fn write_whole(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        let id = &id(sandbox)?;
        let content = &content;
        let write = |client: Client| async move {
            client.put_file(id, path, content.clone(), WriteOptions::default()).await
        };
        let write = self.subjects.call(sandbox.subject(), write);
        within(TRANSFER, write).await?.map(drop).map_err(fault)
    }

    pub(super) async fn replace_whole(
        &self,
        sandbox: &SandboxId,
        path: &str,
        was: &FilePart,
        content: Bytes,
    ) -> Result<()> {
        // For an empty file, the response to a range has no etag. Overwriting it can only lose content written since
        // the read.
        let Some(etag) = was.etag.as_deref() else { return self.write_whole(sandbox, path, content).await };
        let options = WriteOptions { if_match: Some(etag), ..WriteOptions::default() };
        let id = &id(sandbox)?;
        let content = &content;
        let write = |client: Client| async move { client.put_file(id, path, content.clone(), options).await };
        match within(TRANSFER, self.subjects.call(sandbox.subject(), write)).await? {
            Err(error) if error.code() == Some(ErrorCode::PreconditionFailed) => {
                Err(Error::Changed { path: path.to_owned() })
            }
            written => written.map(drop).map_err(fault),
        }
    }

    pub(super) async fn write_stream(&self, sandbox: &SandboxId, path: &str, content: Content) -> Result<()> {
        let (id, content) = (&id(sandbox)?, upload_stream(content));
        let write =
            |client: Client| async move { client.put_file(id, path, content, WriteOptions::default()).await };
        let write = self.subjects.call_once(sandbox.subject(), write);
        within(STREAM, write).await?.map(drop).map_err(fault)
    }

    pub(super) async fn open_file(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        let id = &id(sandbox)?;
        let open = |client: Client| async move { client.get_file(id, path, None).await };
        let open = self.subjects.call(sandbox.subject(), open);
        let content = within(TRANSFER, open).await?.map_err(|error| fault_of_file(error, path))?;
        Ok(Download { bytes: content.length(), content: content.map_err(fault).boxed() })
    }

    pub(super) async fn list_page(
        &self,
        sandbox: &SandboxId,
        path: &str,
        cursor: Option<&str>,
    ) -> Result<FileList> {
        let id = &id(sandbox)?;
        let list = |client: Client| async move { client.list_files(id, path, 1, PAGE, cursor).await };
        let page = self.subjects.call(sandbox.subject(), list).await;
        let page = page.map_err(|error| fault_of_file(error, path))?;
        Ok(FileList { entries: page.entries.into_iter().map(entry).collect(), next_cursor: page.next_cursor })
    }

    pub(super) async fn remove_all(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        let id = &id(sandbox)?;
        let remove = |client: Client| async move { client.delete_file(id, path, true).await };
        let removed = self.subjects.call(sandbox.subject(), remove).await;
        removed.map(drop).map_err(|error| fault_of_file(error, path))
    }
}

fn entry(file: FileInfo) -> FileEntry {
    FileEntry {
        kind: kind(file.kind),
        bytes: (file.kind == wire::FileKind::File).then_some(file.size),
        name: file.name,
        modified_at: Some(file.modified_at),
    }
}

fn kind(kind: wire::FileKind) -> FileKind {
    match kind {
        wire::FileKind::File => FileKind::File,
        wire::FileKind::Directory => FileKind::Directory,
        wire::FileKind::Symlink => FileKind::Link,
        wire::FileKind::Other => FileKind::Other,
    }
}

fn reported_size(error: &sandbox_client::Error) -> Option<u64> {
    error.body()?.details.get("sizeBytes")?.as_u64()
}

fn fault_of_file(error: sandbox_client::Error, path: &str) -> Error {
    let is_of_file = |body: &ErrorBody| body.details.get("resource").is_some_and(|it| it == "file");
    if error.code() == Some(ErrorCode::NotFound) && error.body().is_some_and(is_of_file) {
        return Error::NoFile { path: path.to_owned() };
    }
    fault(error)
}
