//! Changes of files.

use http::Method;
use sandbox_api::SandboxId;
use sandbox_api::files::WatchRecord;

use crate::deadlines::UNLIMITED;
use crate::records::RecordStream;
use crate::request::{RequestBuilder, send};
use crate::{Client, Error};

impl Client {
    /// Watches a file or directory. With `recursive`, also watches everything below it. Every change after the first
    /// record is reported. The sandbox counts as used until the stream is dropped.
    pub async fn watch_files(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
        recursive: bool,
    ) -> Result<FileChanges, Error> {
        let request = self.files(Method::GET, sandbox, ":watch", path).query(&[("recursive", recursive)]);
        changes(request).await
    }

    /// Watches a file, or the entries of a directory, without using the sandbox. The watch ends as lost when the sandbox
    /// is parked, and at once if it is parked already.
    pub async fn watch_files_passively(
        &self,
        sandbox: &SandboxId,
        path: impl AsRef<[u8]>,
    ) -> Result<FileChanges, Error> {
        let request = self.files(Method::GET, sandbox, ":watch", path).query(&[("passive", true)]);
        changes(request).await
    }
}

/// Changes in order. The last record is [`WatchRecord::Gone`] or [`WatchRecord::Lost`]. After a loss or an error, start a new
/// watch and list the files again.
pub type FileChanges = RecordStream<WatchRecord>;

async fn changes(request: RequestBuilder) -> Result<FileChanges, Error> {
    let response = send(request, UNLIMITED).await?;
    Ok(RecordStream::new(response, |record| matches!(record, WatchRecord::Gone | WatchRecord::Lost)))
}
