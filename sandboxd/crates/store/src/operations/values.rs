//! Operations on the values that clients keep with a sandbox.

use sandbox_api::SandboxId;
use sandboxd_model::value::{KeptValue, ValueInfo, ValueKey, ValueTotals};

use crate::{Error, Store};

impl Store {
    /// One value.
    pub async fn value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<Option<KeptValue>, Error> {
        self.database.value(sandbox, key).await
    }

    /// Up to `limit` values of a sandbox whose keys begin with `prefix`, without their bytes, in the order of their keys. With
    /// `after`, those behind this key.
    pub async fn value_infos(
        &self,
        sandbox: &SandboxId,
        prefix: &str,
        after: Option<&ValueKey>,
        limit: u32,
    ) -> Result<Vec<ValueInfo>, Error> {
        self.database.value_infos(sandbox, prefix, after, limit).await
    }

    /// All values of a sandbox at one point in time, in the order of their keys.
    pub async fn values(&self, sandbox: &SandboxId) -> Result<Vec<KeptValue>, Error> {
        self.database.values(sandbox).await
    }

    /// How much each sandbox keeps. Those without values are not listed.
    pub async fn value_totals(&self) -> Result<Vec<(SandboxId, ValueTotals)>, Error> {
        self.database.value_totals().await
    }

    /// How much one sandbox keeps.
    pub async fn value_totals_of(&self, sandbox: &SandboxId) -> Result<ValueTotals, Error> {
        self.database.value_totals_of(sandbox).await
    }

    /// Writes a value, or replaces the one with its key. Fails if the sandbox does not exist.
    pub async fn put_value(&self, sandbox: &SandboxId, value: &KeptValue) -> Result<(), Error> {
        self.database.put_value(sandbox, value).await
    }

    /// Replaces all values of a sandbox, which have different keys. Fails if the sandbox does not exist.
    ///
    /// It is one transaction of up to 64 MiB, during which other writes wait. So its time limit is longer than theirs.
    pub async fn replace_values(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        self.database.replace_values(sandbox, values).await
    }

    /// Deletes a value. Succeeds if there is none.
    pub async fn forget_value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<(), Error> {
        self.database.delete_value(sandbox, key).await
    }
}
