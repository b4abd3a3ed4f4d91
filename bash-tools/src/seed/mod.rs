//! A workspace's first files: a git repository, or a directory of this machine.
//!
//! A seed is planted once in a sandbox. That it is there is written down in the sandbox itself, so neither a restart of the
//! app nor a parked sandbox plants it again; one that failed is tried again by the next use, and harms nothing. It is made
//! beside the workspace's files and put in place at the end, so what fails or is stopped before leaves nothing to work in.
//!
//! Nothing is ever planted over somebody's work. Where another seed was planted before, where there are files although none
//! was, or where `.remcochat` was removed beside them, the workspace stays as it is and counts as seeded.

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
use workspace::Planting;

/// What to plant.
#[derive(Debug, Clone)]
pub enum Seed {
    /// A repository, cloned in the sandbox.
    Git(GitSeed),
    /// A directory of this machine, sent to the sandbox.
    Upload(UploadSeed),
}

/// How far a seed is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum SeedState {
    /// Nobody has looked yet.
    Pending,
    /// It is being planted.
    Running {
        /// What is being done, for people.
        step: String,
    },
    /// It is there.
    Done,
    /// It is not there; the next use tries again.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

impl Seed {
    /// Plants it where nothing is yet, and tells each step. Safe to repeat, also by two apps at once. Where it is there already,
    /// this is one short command. `is_untouched` says that nobody can have run anything in the sandbox yet; credentials
    /// are sent to no other one.
    pub async fn plant(
        &self,
        provider: &dyn Provider,
        sandbox: &SandboxId,
        is_untouched: bool,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<()> {
        if let Self::Git(seed) = self {
            seed.check()?;
        }
        let planting = Planting { provider, sandbox, tell };
        if planting.is_over().await? {
            return Ok(());
        }
        match self {
            Self::Git(seed) if seed.credentials.is_some() && !is_untouched => Err(Error::UsedBefore),
            Self::Git(seed) => seed.plant(&planting).await,
            Self::Upload(seed) => seed.plant(&planting).await,
        }
    }
}
