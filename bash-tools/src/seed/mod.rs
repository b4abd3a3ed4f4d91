//! A workspace's first files: a git repository, or a directory of this machine.
//!
//! A seed is planted once in a sandbox. That it is there is written down in the sandbox itself, so neither a restart of the
//! app nor a parked sandbox plants it again; one that failed is tried again by the next use, and harms nothing.

mod error;

use serde::Serialize;

pub use error::{Error, Result};

use crate::provider::{Provider, SandboxId};

/// What to plant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seed {}

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
    /// Plants it where it is not there yet, and tells each step. Safe to repeat.
    pub async fn plant(
        &self,
        _provider: &dyn Provider,
        _sandbox: &SandboxId,
        _tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<()> {
        match *self {}
    }
}
