//! A directory of this machine, sent as one archive: what is left out, counted and sized is known before the first byte goes.
//!
//! Modes and times are kept, owners and empty directories are not. A link that leads out of the directory is left out, others
//! stay links; sockets, devices and fifos are left out. A file that cannot be read ends the upload: a workspace that lacks a
//! file in silence would be worse than none. One that grows meanwhile is cut where it was when it was counted, as tar(1)
//! does; one that gets shorter ends the upload, and the next use tries again.

mod archive;
mod include;
mod left_out;
mod survey;

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::workspace::{Planting, Stage};
use super::{Error, Result};
use survey::Survey;

const SETTLE: &str = include_str!("settle.sh");

/// How long what has arrived may take to be put in place, and to wait for another app that does the same.
const SETTLE_TIME: Duration = Duration::from_secs(120);

/// A directory to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSeed {
    /// An absolute path on this machine. What `.gitignore` files in it name is left out, whether or not it is a repository,
    /// and so is what holds secrets or comes from building, always.
    pub root: PathBuf,
    /// A glob that paths beneath the root must match, whatever their case: `**/*`, `src/**`, `**/*.{ts,json}`. `*` does not
    /// match `/`, `**` does; several are one in braces, `{src/**,*.json}`.
    pub include: String,
    /// Most files and links, see [`UploadSeed::MAX_FILES`].
    pub max_files: usize,
    /// Most bytes of files together, see [`UploadSeed::MAX_BYTES`].
    pub max_bytes: u64,
}

impl UploadSeed {
    /// Files that may be uploaded where nothing else is said.
    pub const MAX_FILES: usize = 2000;
    /// Bytes that may be uploaded where nothing else is said: 256 MiB.
    pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

    /// Sends the files into a workspace that has nothing yet.
    pub(super) async fn plant(&self, planting: &Planting<'_>) -> Result<()> {
        planting.tell("looking for files to upload");
        let seed = self.clone();
        let survey = spawn_blocking(move || Survey::of(&seed)).await.map_err(|_| Error::Stopped)??;
        planting.tell(format!("uploading {} files with {} bytes", survey.entries.len(), survey.bytes));
        let root = self.root.as_os_str().as_encoded_bytes();
        let stage = Stage::new("upload", &[root, self.include.as_bytes()]);
        self.send(planting, survey, &stage).await?;
        planting.tell("putting the files in place");
        let ran = planting.run(SETTLE, stage.environment(), SETTLE_TIME).await?;
        planting.is_done(ran).map(drop)
    }

    async fn send(&self, planting: &Planting<'_>, survey: Survey, stage: &Stage) -> Result<()> {
        let (archive, packing) = archive::stream(survey, stage.path.clone().into());
        let unpacked = planting.provider.unpack(planting.sandbox, archive).await;
        // Why there was nothing more to send is known here, and to the provider only that there was not.
        packing.await.map_err(|_| Error::Stopped)??;
        Ok(unpacked?)
    }
}
