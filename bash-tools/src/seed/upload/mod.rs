//! Seed from a directory of this machine, sent as one archive. Files are selected, counted and measured before the
//! first byte is sent.
//!
//! Modes and times are kept, owners and empty directories are not. Links are kept as links, unless they lead out of
//! the directory. Those are skipped, and so are sockets, devices and FIFOs. A file that cannot be read ends the
//! upload, because a silently missing file would be worse. A file that grows meanwhile is cut at its counted length,
//! as in tar(1). A file that shrinks ends the upload, and the next use tries again.

mod archive;
mod include;
mod skipped;
mod survey;

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::workspace::{Planting, Stage};
use super::{Error, Result};
use survey::Survey;

const SETTLE: &str = include_str!("settle.sh");

/// Deadline for moving the files into place, including the wait for another app that does the same.
const SETTLE_TIME: Duration = Duration::from_secs(120);

/// A directory as seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSeed {
    /// Absolute path on this machine. Files that its `.gitignore` files exclude are skipped, even if it is not a
    /// repository. Secrets and build results are always skipped.
    pub root: PathBuf,
    /// Glob that paths relative to the root must match, ignoring case: `**/*`, `src/**`, `**/*.{ts,json}`. `*` does
    /// not match `/`, `**` does. Braces combine several globs: `{src/**,*.json}`.
    pub include: String,
    /// Maximum number of files and links, see [`UploadSeed::MAX_FILES`].
    pub max_files: usize,
    /// Maximum size of all files in bytes, see [`UploadSeed::MAX_BYTES`].
    pub max_bytes: u64,
}

impl UploadSeed {
    /// Default maximum number of files.
    pub const MAX_FILES: usize = 2000;
    /// Default maximum size: 256 MiB.
    pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

    /// Sends the files into an empty workspace.
    pub(super) async fn seed_workspace(&self, progress: &Planting<'_>) -> Result<()> {
        progress.report("looking for files to upload");
        let seed = self.clone();
        let survey = spawn_blocking(move || Survey::of(&seed)).await.map_err(|_| Error::Stopped)??;
        progress.report(format!("uploading {} files with {} bytes", survey.entries.len(), survey.bytes));
        let root = self.root.as_os_str().as_encoded_bytes();
        let stage = Stage::new("upload", &[root, self.include.as_bytes()]);
        self.send(progress, survey, &stage).await?;
        progress.report("putting the files in place");
        let ran = progress.run(SETTLE, stage.environment(), SETTLE_TIME).await?;
        progress.is_done(ran).map(drop)
    }

    async fn send(&self, progress: &Planting<'_>, survey: Survey, stage: &Stage) -> Result<()> {
        let (archive, packing) = archive::stream(survey, stage.path.clone().into());
        let unpacked = progress.provider.unpack(progress.sandbox, archive).await;
        // The cause is known here. The provider only knows that the content ended early.
        packing.await.map_err(|_| Error::Stopped)??;
        Ok(unpacked?)
    }
}
