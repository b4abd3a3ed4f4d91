//! Checks whether a workspace is seeded, and moves a seed into place.

use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::script::{self, Finished};
use super::{Error, Result};
use crate::provider::{Command, Environment, Provider, SandboxId};

/// Common part of all seed scripts.
const WORKSPACE: &str = include_str!("workspace.sh");
const PROBE: &str = include_str!("look.sh");

/// Deadline of a check. It waits for a concurrent seed of another app only if the workspace seems to be in use.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Target of a seed, and the receiver of its progress.
pub(super) struct Seeding<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) sandbox: &'a SandboxId,
    pub(super) report: &'a (dyn Fn(String) + Send + Sync),
}

/// A seed in progress: its mark, and its temporary directory.
pub(super) struct Stage {
    /// Path relative to the workspace.
    pub(super) path: String,
    mark: String,
}

impl Stage {
    /// Creates a stage for a kind of seed with these settings. The mark contains only a digest of the settings,
    /// because the model can read it and they contain paths of this machine.
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

    /// Environment variables for the scripts.
    pub(super) fn environment(&self) -> Environment {
        Environment::default().with("SEED_STAGE", &self.path).with("SEED_MARK", &self.mark)
    }
}

impl Seeding<'_> {
    /// Whether no seed is needed any more. Takes one round trip.
    pub(super) async fn is_over(&self) -> Result<bool> {
        let ran = self.run(PROBE, Environment::default(), PROBE_TIMEOUT).await?;
        self.is_done(ran)
    }

    /// Reports a step.
    pub(super) fn report(&self, step: impl Into<String>) {
        (self.report)(step.into());
    }

    /// Runs a script after the common part, and reports its steps.
    pub(super) async fn run(
        &self,
        script: &str,
        environment: Environment,
        timeout: Duration,
    ) -> Result<Finished> {
        let script = format!("{WORKSPACE}{script}");
        let command = Command { environment, ..Command::new(script, timeout) };
        let on_line = |line: &str| {
            if let Some(step) = step(line) {
                self.report(step);
            }
        };
        script::run(self.provider, self.sandbox, command, &on_line).await
    }

    /// Whether the workspace is seeded according to a script. Returns an error if the script failed.
    pub(super) fn is_done(&self, ran: Finished) -> Result<bool> {
        match (ran.exit_code, ran.stdout.last().map(String::as_str)) {
            (0, Some("done")) => Ok(true),
            (0, Some("occupied")) => {
                tracing::info!(sandbox = %self.sandbox, "the workspace has files already and is not seeded");
                Ok(true)
            }
            (0, Some("fresh" | "partly")) => Ok(false),
            (exit_code, _) => {
                let message = ran.stderr.last().cloned().unwrap_or_default();
                Err(Error::Workspace { exit_code, message })
            }
        }
    }
}

/// Progress in a line of output: a step of this crate, or git's progress.
fn step(line: &str) -> Option<&str> {
    const PROGRESS: [&str; 3] = ["Receiving objects:", "Resolving deltas:", "Updating files:"];
    let is_progress = PROGRESS.iter().any(|words| line.starts_with(words));
    line.strip_prefix("step ").or(Some(line).filter(|_| is_progress))
}
