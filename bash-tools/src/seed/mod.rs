//! Seeds: the first files of a workspace, from a git repository or a directory of this machine.
//!
//! A workspace is seeded once. The sandbox itself records this, so neither a restart of the app nor parking repeats
//! it. The next use retries a failed seed. The files are prepared beside the workspace's files and moved into place
//! at the end, so a failed or interrupted seed leaves no partial files.
//!
//! A seed never overwrites existing work. A workspace counts as seeded and stays unchanged in these cases:
//!
//! - another seed was used before
//! - it contains files, but was never seeded
//! - it contains files, and `.remcochat` was removed

mod error;
mod git;
mod script;
mod upload;
mod workspace;

use serde::Serialize;

pub use error::{Error, GitUrlFault, Result};
pub use git::{GitCredentials, GitSeed};
pub use upload::UploadSeed;

use crate::provider::{Provider, SandboxId};
use workspace::Seeding;

/// Source of the files.
#[derive(Debug, Clone)]
pub enum Seed {
    /// A repository that is cloned in the sandbox.
    Git(GitSeed),
    /// A directory of this machine that is sent to the sandbox.
    Upload(UploadSeed),
}

/// State of a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum SeedState {
    /// The workspace was not checked yet.
    Pending,
    /// The seed is in progress.
    Running {
        /// Current step, human-readable.
        step: String,
    },
    /// The workspace is seeded.
    Done,
    /// The seed failed. The next use tries again.
    Failed {
        /// Reason, human-readable.
        reason: String,
    },
}

impl Seed {
    /// Seeds an empty workspace and reports each step. Safe to repeat, also concurrently by two apps. If the
    /// workspace is already seeded, this is one short command. `is_untouched` means that nothing can have run in the
    /// sandbox yet. Credentials are sent only to such a sandbox.
    pub async fn seed_workspace(
        &self,
        provider: &dyn Provider,
        sandbox: &SandboxId,
        is_untouched: bool,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<()> {
        if let Self::Git(seed) = self {
            seed.check()?;
        }
        let progress = Seeding { provider, sandbox, report };
        if progress.is_over().await? {
            return Ok(());
        }
        match self {
            Self::Git(seed) if seed.credentials.is_some() && !is_untouched => Err(Error::UsedBefore),
            Self::Git(seed) => seed.seed_workspace(&progress).await,
            Self::Upload(seed) => seed.seed_workspace(&progress).await,
        }
    }
}
