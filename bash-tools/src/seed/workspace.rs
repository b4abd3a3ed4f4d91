//! Whether a workspace has its seed, and how one is put in place there.

use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::script::{self, Ran};
use super::{Error, Result};
use crate::provider::{Command, Environment, Provider, SandboxId};

/// What the scripts of a seed have in common.
const WORKSPACE: &str = include_str!("workspace.sh");
const LOOK: &str = include_str!("look.sh");

/// How long a look may take. It waits for another app that is planting only where the workspace seems to be somebody's.
const LOOK_TIME: Duration = Duration::from_secs(60);

/// Where a seed is being planted, and who is told.
pub(super) struct Planting<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) sandbox: &'a SandboxId,
    pub(super) tell: &'a (dyn Fn(String) + Send + Sync),
}

/// A seed on its way: what it is known by, and where it is before it is put in place.
pub(super) struct Stage {
    /// Beneath the workspace.
    pub(super) path: String,
    mark: String,
}

impl Stage {
    /// For a seed of some kind with these settings. They are written down as a fingerprint, because the model can read it
    /// and they name places of this machine.
    pub(super) fn new(kind: &str, settings: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for setting in settings {
            digest.update((setting.len() as u64).to_be_bytes());
            digest.update(setting);
        }
        let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            path: format!(".remcochat/seed.{}", Uuid::new_v4().simple()),
            mark: format!("{kind} {digest}"),
        }
    }

    /// What the scripts know of it.
    pub(super) fn environment(&self) -> Environment {
        Environment::default().with("SEED_STAGE", &self.path).with("SEED_MARK", &self.mark)
    }
}

impl Planting<'_> {
    /// Whether nothing is to be planted any more: one round trip.
    pub(super) async fn is_over(&self) -> Result<bool> {
        let ran = self.run(LOOK, Environment::default(), LOOK_TIME).await?;
        self.is_done(ran)
    }

    /// Tells a step.
    pub(super) fn tell(&self, step: impl Into<String>) {
        (self.tell)(step.into());
    }

    /// Runs a script behind those that all have in common, and tells the steps that it tells.
    pub(super) async fn run(&self, script: &str, environment: Environment, timeout: Duration) -> Result<Ran> {
        let script = format!("{WORKSPACE}{script}");
        let command = Command { environment, ..Command::new(script, timeout) };
        let hear = |line: &str| {
            if let Some(step) = step(line) {
                self.tell(step);
            }
        };
        script::run(self.provider, self.sandbox, command, &hear).await
    }

    /// Whether a script has found or made the workspace seeded. What has failed is an error.
    pub(super) fn is_done(&self, ran: Ran) -> Result<bool> {
        match (ran.exit_code, ran.said.last().map(String::as_str)) {
            (0, Some("done")) => Ok(true),
            (0, Some("occupied")) => {
                tracing::info!(sandbox = %self.sandbox, "the workspace has files and is not seeded over them");
                Ok(true)
            }
            (0, Some("fresh" | "partly")) => Ok(false),
            (exit_code, _) => {
                let said = ran.complained.last().cloned().unwrap_or_default();
                Err(Error::Workspace { exit_code, said })
            }
        }
    }
}

/// What a line tells people: a step of ours, or how far git is.
fn step(line: &str) -> Option<&str> {
    const PROGRESS: [&str; 3] = ["Receiving objects:", "Resolving deltas:", "Updating files:"];
    let is_progress = PROGRESS.iter().any(|words| line.starts_with(words));
    line.strip_prefix("step ").or(Some(line).filter(|_| is_progress))
}
