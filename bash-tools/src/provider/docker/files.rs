//! Files of a sandbox of sandboxd.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use sandbox_api::files::{self as wire, FileInfo};
use sandbox_api::{ErrorBody, ErrorCode, SandboxId};
use sandbox_client::{ByteRange, WriteOptions, upload_stream};

use super::{Docker, fault, within};
use crate::provider::{Content, Download, Error, FileEntry, FileKind, FileList, FilePart, Result};

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
        let read = async {
            let content = self.client.get_file(sandbox, path, Some(ByteRange::Span(offset, last))).await?;
            let (total_bytes, etag) = (content.total_bytes(), content.etag().map(str::to_owned));
            let bytes = content.bytes(max_bytes).await?.into();
            Ok::<_, sandbox_client::Error>(FilePart { bytes, total_bytes, etag })
        };
        match within(TRANSFER, read).await? {
            Ok(part) => Ok(part),
            Err(error) if error.code() == Some(ErrorCode::RangeNotSatisfiable) => {
                Ok(FilePart { bytes: Bytes::new(), total_bytes: reported_size(&error), etag: None })
            }
            Err(error) => Err(fault_of_file(error, path)),
        }
    }

    pub(super) async fn write_whole(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        let write = self.client.put_file(sandbox, path, content, WriteOptions::default());
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
        let write = self.client.put_file(sandbox, path, content, options);
        match within(TRANSFER, write).await? {
            Err(error) if error.code() == Some(ErrorCode::PreconditionFailed) => {
                Err(Error::Changed { path: path.to_owned() })
            }
            written => written.map(drop).map_err(fault),
        }
    }

    pub(super) async fn write_stream(&self, sandbox: &SandboxId, path: &str, content: Content) -> Result<()> {
        let content = upload_stream(content);
        let write = self.client.put_file(sandbox, path, content, WriteOptions::default());
        within(STREAM, write).await?.map(drop).map_err(fault)
    }

    pub(super) async fn open_file(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        let open = self.client.get_file(sandbox, path, None);
        let content = within(TRANSFER, open).await?.map_err(|error| fault_of_file(error, path))?;
        Ok(Download { bytes: content.length(), content: content.map_err(fault).boxed() })
    }

    pub(super) async fn list_page(
        &self,
        sandbox: &SandboxId,
        path: &str,
        cursor: Option<&str>,
    ) -> Result<FileList> {
        let page = self.client.list_files(sandbox, path, 1, PAGE, cursor).await;
        let page = page.map_err(|error| fault_of_file(error, path))?;
        Ok(FileList { entries: page.entries.into_iter().map(entry).collect(), next_cursor: page.next_cursor })
    }

    pub(super) async fn remove_all(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        let removed = self.client.delete_file(sandbox, path, true).await;
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
