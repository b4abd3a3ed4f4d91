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

use crate::chat_key::ChatKey;
use crate::provider::{Opened, Provider, SandboxId};
use git::Revision;
use workspace::Seeding;

/// Source of the files.
#[derive(Debug, Clone)]
pub enum Seed {
    /// A repository that is cloned in the sandbox, or whose files the sandbox begins with.
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

/// A sandbox that was opened for a seed.
#[derive(Debug)]
pub struct OpenedForSeed {
    /// The sandbox.
    pub opened: Opened,
    /// Whether it began with the files of the seed, and as what.
    begun: Option<Revision>,
}

impl From<Opened> for OpenedForSeed {
    fn from(opened: Opened) -> Self {
        Self { opened, begun: None }
    }
}

impl Seed {
    /// Opens the session's sandbox. A new one may begin with the files of the seed. Then [`Self::complete`] must follow.
    pub async fn open(&self, provider: &dyn Provider, key: &ChatKey) -> Result<OpenedForSeed> {
        if let Self::Git(seed) = self
            && let Some((opened, revision)) = seed.open(provider, key).await?
        {
            let begun = opened.is_new.then_some(revision);
            return Ok(OpenedForSeed { opened, begun });
        }
        Ok(provider.open(key).await?.into())
    }

    /// Seeds the workspace of a sandbox that [`Self::open`] has returned, as [`Self::seed_workspace`]. A new sandbox that began
    /// with the files and cannot keep them is deleted.
    pub async fn complete(
        &self,
        provider: &dyn Provider,
        sandbox: &OpenedForSeed,
        is_untouched: bool,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<()> {
        let OpenedForSeed { opened, begun } = sandbox;
        if let (Self::Git(seed), Some(revision)) = (self, begun) {
            let progress = Seeding { provider, sandbox: &opened.sandbox, report };
            progress.report("completing the files of the repository");
            match seed.complete(&progress, revision).await {
                Ok(true) => return Ok(()),
                // It has no files, so they are cloned.
                Ok(false) => {}
                Err(error) => {
                    // Otherwise the next use would take them for files of the user.
                    if let Err(error) = provider.delete(&opened.sandbox).await {
                        tracing::warn!(sandbox = %opened.sandbox, %error, "a sandbox with a failed seed is left");
                    }
                    return Err(error);
                }
            }
        }
        self.seed_workspace(provider, &opened.sandbox, is_untouched, report).await
    }

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
