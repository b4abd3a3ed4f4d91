//! Reads and writes files of a sandbox through the client.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::SandboxId;
use sandbox_api::files::{FileToWrite, WriteFiles};
use sandbox_client::Error;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON, until};

pub(crate) fn file(path: &str, content: impl AsRef<[u8]>) -> FileToWrite {
    FileToWrite { path: path.into(), content_base64: BASE64_STANDARD.encode(content), mode: None }
}

pub(crate) async fn write(
    daemon: &Daemon,
    sandbox: &SandboxId,
    files: impl Into<Vec<FileToWrite>>,
) -> Result<(), Error> {
    let request = WriteFiles { files: files.into() };
    let written = timeout(SOON, daemon.client.write_files(sandbox, &request)).await.expect("the write hangs");
    written.map(|done| assert!(done.ok))
}

pub(crate) async fn read(daemon: &Daemon, sandbox: &SandboxId, path: &str) -> Result<Option<Vec<u8>>, Error> {
    timeout(SOON, daemon.client.read_file(sandbox, path)).await.expect("the read hangs")
}

/// Waits until no leftover of a failed write exists.
pub(crate) async fn no_partial_write_is_left(daemon: &Daemon, sandbox: &SandboxId) {
    let look = "find /vercel/sandbox/.staging -mindepth 1 2>&1 | grep -v 'No such file'; true";
    until("nothing is left", || async { daemon.output(sandbox, look).await.is_empty() }).await;
}
