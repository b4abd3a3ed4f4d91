//! Operations on sandboxes.

use sandbox_api::SandboxId;

use crate::{Error, ErrorKind, Store};
use sandboxd_model::{SandboxRecord, Stage};

impl Store {
    /// All sandboxes, oldest first. A row that cannot be read is an error that names the row.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        self.database.sandboxes().await
    }

    /// Writes the intent to create a sandbox. Fails with [`ErrorKind::Taken`] if another sandbox has its id, session
    /// key or slot.
    ///
    /// After any other error the row may exist, because the disk may have answered too late: remove it.
    pub async fn begin(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.database.insert_sandbox(record).await
    }

    /// Writes what is being done with a sandbox. Fails with [`ErrorKind::Absent`] if the store does not have it.
    pub async fn set_stage(&self, id: &SandboxId, stage: Stage) -> Result<(), Error> {
        let is_there = self.database.set_stage(id, stage).await?;
        if is_there {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Absent, format!("the store has no sandbox {id}")))
        }
    }

    /// Like [`Self::set_stage`], but changes nothing and returns false if the sandbox is being deleted or does
    /// not exist.
    pub async fn set_stage_unless_deleting(&self, id: &SandboxId, stage: Stage) -> Result<bool, Error> {
        self.database.set_stage_unless(id, stage, Stage::Deleting).await
    }

    /// Writes the whole row of a sandbox, whether or not there is one.
    pub async fn put(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.database.put_sandbox(record).await
    }

    /// Notes that these sandboxes are no longer [tentative](SandboxRecord::is_tentative), all of them or none. Nothing else
    /// changes that. Skips sandboxes that do not exist.
    pub async fn confirm(&self, ids: &[SandboxId]) -> Result<(), Error> {
        self.database.confirm_sandboxes(ids).await
    }

    /// Removes a sandbox and its history. Idempotent: succeeds if the sandbox does not exist.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        self.database.remove_sandbox(id).await
    }

    /// Writes the sandboxes that the engine's labels describe, all of them or none. Afterwards the store is not
    /// new.
    pub async fn rehydrate(&self, records: &[SandboxRecord]) -> Result<(), Error> {
        self.database.load_sandboxes(records).await?;
        self.set_loaded();
        Ok(())
    }

    /// Writes when sandboxes were last used, in milliseconds since the Unix epoch. Skips sandboxes that do not
    /// exist.
    pub async fn touch(&self, seen: &[(SandboxId, i64)]) -> Result<(), Error> {
        self.database.touch_sandboxes(seen).await
    }
}
