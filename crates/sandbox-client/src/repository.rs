//! Commands in repositories.

use std::time::Duration;

use sandbox_api::limits::DEFAULT_COMMAND_TIMEOUT_MS;
use sandbox_api::repository::{RepositoryRan, RunInRepository};

use crate::deadlines::FETCH;
use crate::request::json;
use crate::{Client, Error};

impl Client {
    /// Runs a script that reads a repository, and returns its output as text for a language model. The repository may have to
    /// be fetched first. Dropping the call ends the script. Safe to repeat.
    pub async fn run_in_repository(&self, body: &RunInRepository) -> Result<RepositoryRan, Error> {
        let limit = Duration::from_millis(body.timeout_ms.unwrap_or(DEFAULT_COMMAND_TIMEOUT_MS));
        json(self.post("/v1/repositories:run", body), limit.saturating_add(FETCH)).await
    }
}
