//! Operations on the history of commands. [`History`] writes it.

use std::collections::HashMap;

use sandbox_api::{CommandId, SandboxId};

use crate::{EndedCommand, Error, History, Store, Written};
use sandboxd_model::{CommandRecord, limits};

impl Store {
    /// The history of commands, for writing.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Up to `limit` commands of a sandbox, newest first.
    pub async fn commands(&self, sandbox: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        self.history.flush().await;
        self.database.newest_commands(sandbox, limit).await
    }

    /// One command of a sandbox.
    pub async fn command(&self, sandbox: &SandboxId, id: &CommandId) -> Result<Option<CommandRecord>, Error> {
        self.history.flush().await;
        self.database.command(sandbox, id).await
    }

    /// Like [`Self::command`], but may miss what is still in the queue of the history.
    pub async fn written_command(
        &self,
        sandbox: &SandboxId,
        id: &CommandId,
    ) -> Result<Option<CommandRecord>, Error> {
        self.database.command(sandbox, id).await
    }

    /// Which of these commands of a sandbox are stored. May miss what is still in the queue of the history.
    pub async fn written(
        &self,
        sandbox: &SandboxId,
        ids: &[CommandId],
    ) -> Result<HashMap<CommandId, Written>, Error> {
        self.database.written_commands(sandbox, ids).await
    }

    /// The commands of a sandbox whose end is not known, oldest first.
    pub async fn unended(&self, sandbox: &SandboxId) -> Result<Vec<CommandRecord>, Error> {
        self.history.flush().await;
        self.database.unended_commands(sandbox).await
    }

    /// Up to `limit` commands of a sandbox that have ended, the last one that ended first. With `before`, those before this
    /// number.
    pub async fn ended_commands(
        &self,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<EndedCommand>, Error> {
        self.history.flush().await;
        self.database.ended_commands(sandbox, before, limit).await
    }

    /// Deletes the commands that ended longer than [`limits::RECORDED_COMMAND_AGE`] ago, by the daemon's age,
    /// and all but the newest [`limits::MAX_RECORDED_COMMANDS`] of each sandbox. Commands whose end is not known
    /// are kept up to twice that number. Of the ended commands, [`limits::MAX_ENDED_COMMANDS`] of each sandbox are kept. Returns the number of deleted commands.
    pub async fn trim(&self) -> Result<u64, Error> {
        self.history.flush().await;
        let before = self.age.get_ms().saturating_sub(limits::RECORDED_COMMAND_AGE.as_millis() as u64);
        self.database.trim_ended(limits::MAX_ENDED_COMMANDS).await?;
        self.database.trim_commands(before, limits::MAX_RECORDED_COMMANDS).await
    }
}
