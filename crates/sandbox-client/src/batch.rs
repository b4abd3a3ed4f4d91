//! Batches: commands that run one after another.

use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::batch::{BatchRan, RunBatch};

use crate::deadlines::ACT;
use crate::request::json;
use crate::{Client, Error};

/// Default and minimum time limit of a command, as the daemon has them.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
const MIN_TIMEOUT_MS: u64 = 1_000;

impl Client {
    /// Runs up to 50 commands in order and returns when the last one has ended. Stops after the first failure, unless
    /// `continue_on_error` is set. Dropping the future ends the running command and starts no other. Safe to repeat
    /// only if each command has an id chosen by the caller.
    ///
    /// ```no_run
    /// use sandbox_api::batch::{BatchOutcome, RunBatch};
    /// use sandbox_api::command::StartCommand;
    ///
    /// # async fn example(client: sandbox_client::Client, sandbox: sandbox_api::SandboxId) -> Result<(), sandbox_client::Error> {
    /// let commands = ["npm ci", "npm test"].map(|line| StartCommand {
    ///     script: Some(line.into()),
    ///     timeout_ms: Some(120_000),
    ///     ..StartCommand::default()
    /// });
    /// let request = RunBatch { commands: commands.into(), ..RunBatch::default() };
    /// for result in client.run_batch(&sandbox, &request).await?.results {
    ///     match result.outcome {
    ///         BatchOutcome::Ended(ended) => println!("{} {}", ended.exit_code, ended.stdout),
    ///         BatchOutcome::NotStarted(fault) => println!("{}", fault.error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_batch(&self, sandbox: &SandboxId, body: &RunBatch) -> Result<BatchRan, Error> {
        let request = self.post(&format!("/v1/sandboxes/{sandbox}/commands:batch"), body);
        json(request, longest(body)).await
    }
}

/// Maximum duration of a batch: the time limit of each command, plus the time that a start and an end may take.
fn longest(body: &RunBatch) -> Duration {
    let of_each = body.commands.iter().map(|command| {
        let limit_ms = command.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).max(MIN_TIMEOUT_MS);
        Duration::from_millis(limit_ms).saturating_add(ACT)
    });
    of_each.fold(ACT, Duration::saturating_add)
}
