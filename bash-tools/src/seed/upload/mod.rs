//! Seed from a directory of this machine, sent as one archive. Files are selected, counted and measured before the
//! first byte is sent.
//!
//! Modes and times are kept, owners and empty directories are not. Links are kept as links, unless they lead out of
//! the directory. Those are skipped, and so are sockets, devices and FIFOs. A file that cannot be read ends the
//! upload, because a silently missing file would be worse. A file that grows meanwhile is cut at its counted length,
//! as in tar(1). A file that shrinks ends the upload, and the next use tries again.

mod archive;
mod include;
mod options;
mod skipped;
mod survey;

use std::time::Duration;

use tokio::task::spawn_blocking;

use super::workspace::{Seeding, Stage};
use super::{Error, Result};
use survey::Survey;

pub use options::UploadSeed;

const SETTLE: &str = include_str!("settle.sh");

/// Deadline for moving the files into place, including the wait for another app that does the same.
const SETTLE_TIME: Duration = Duration::from_secs(120);

impl UploadSeed {
    /// Sends the files into an empty workspace.
    pub(super) async fn seed_workspace(&self, progress: &Seeding<'_>) -> Result<()> {
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

    async fn send(&self, progress: &Seeding<'_>, survey: Survey, stage: &Stage) -> Result<()> {
        let (archive, packing) = archive::stream(survey, stage.path.clone().into());
        let unpacked = progress.provider.unpack(progress.sandbox, archive).await;
        // The cause is known here. The provider only knows that the content ended early.
        packing.await.map_err(|_| Error::Stopped)??;
        Ok(unpacked?)
    }
}
