//! Values that clients keep with a sandbox, by key.
//!
//! They are in the store, so they can be read and changed while the sandbox is parked. They are removed with it. Changes of one
//! sandbox are made one after another.

use std::sync::Arc;

use bytes::Bytes;
use sandbox_api::SandboxId;
use tokio::sync::MutexGuard;
use tokio::time::timeout;

use super::clock::now_ms;
use super::lifecycle::{Lifecycle, Sandbox, ValueLedger};
use super::quotas::{Charge, Quotas};
use super::tasks::Tasks;
use super::{Authorized, Context, Error, SnapshotError};
use crate::model::value::{KeptValue, ValueInfo, ValueKey, ValueTotals};
use crate::model::{Refusal, Resource, limits};
use crate::store::Store;

/// Reads and changes the values.
#[derive(Debug)]
pub struct Values {
    lifecycle: Arc<Lifecycle>,
    quotas: Arc<Quotas>,
    store: Arc<Store>,
    tasks: Tasks,
}

/// A change of one value.
#[derive(Debug)]
enum Change {
    Put(KeptValue),
    Delete(ValueKey),
}

impl Values {
    pub(in crate::service) fn new(
        context: &Context,
        lifecycle: &Arc<Lifecycle>,
        quotas: &Arc<Quotas>,
    ) -> Self {
        Self {
            lifecycle: Arc::clone(lifecycle),
            quotas: Arc::clone(quotas),
            store: Arc::clone(&context.store),
            tasks: context.tasks.clone(),
        }
    }

    /// Charges projects for what the previous run has kept.
    pub(in crate::service) async fn restore(&self) -> Result<(), Error> {
        for (id, totals) in self.store.value_totals().await? {
            if let Some(sandbox) = self.lifecycle.registered(&id) {
                let mut ledger = sandbox.values().lock().await;
                ledger.set(totals, || self.charge(&sandbox, totals));
            }
        }
        Ok(())
    }

    /// One value.
    pub async fn get(&self, id: &Authorized<SandboxId>, key: &ValueKey) -> Result<KeptValue, Error> {
        let found = self.store.value(id, key).await?;
        found.ok_or_else(|| Refusal::NotFound(Resource::Value).into())
    }

    /// Up to `limit` values whose keys begin with `prefix`, without their bytes, in the order of their keys (as bytes). With
    /// `after`, those behind this key.
    pub async fn list(
        &self,
        id: &Authorized<SandboxId>,
        prefix: &str,
        after: Option<&ValueKey>,
        limit: u32,
    ) -> Result<Vec<ValueInfo>, Error> {
        Ok(self.store.value_infos(id, prefix, after, limit).await?)
    }

    /// Keeps a value, also if the caller leaves meanwhile. It replaces the one with the same key.
    pub async fn put(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        key: ValueKey,
        value: Bytes,
    ) -> Result<(), Error> {
        if value.len() > limits::MAX_VALUE_BYTES {
            let limit = limits::MAX_VALUE_BYTES as u64;
            return Err(Refusal::TooLarge { what: "the value".into(), limit }.into());
        }
        let value = KeptValue { key, value: value.into(), updated_at_ms: now_ms() };
        self.change(id, Change::Put(value)).await
    }

    /// Deletes a value. Succeeds if there is none.
    pub async fn delete(self: &Arc<Self>, id: &Authorized<SandboxId>, key: ValueKey) -> Result<(), Error> {
        self.change(id, Change::Delete(key)).await
    }

    async fn change(self: &Arc<Self>, id: &Authorized<SandboxId>, change: Change) -> Result<(), Error> {
        let (values, id) = (Arc::clone(self), (**id).clone());
        self.tasks.run_detached(async move { values.change_now(&id, change).await }).await
    }

    async fn change_now(&self, id: &SandboxId, change: Change) -> Result<(), Error> {
        let sandbox = self.lifecycle.find(id)?;
        let mut ledger = self.lock(&sandbox).await?;
        let before = ledger.present(&self.store, id).await?;
        let after = before.without(self.stored(id, change.key()).await?).with(change.totals());
        ledger.begin(before, after, || self.charge(&sandbox, before))?;
        let done = match &change {
            Change::Put(value) => self.store.put_value(id, value).await,
            Change::Delete(key) => self.store.forget_value(id, key).await,
        };
        if done.is_err() && self.lifecycle.registered(id).is_none() {
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        done?;
        ledger.set(after, || self.charge(&sandbox, after));
        Ok(())
    }

    /// Waits until the values may be changed. A restore replaces all of them when it ends, also one that was interrupted.
    async fn lock<'a>(&self, sandbox: &'a Sandbox) -> Result<MutexGuard<'a, ValueLedger>, Error> {
        for _ in 0..limits::RACE_TRIES {
            self.lifecycle.until_unblocked(sandbox.id()).await?;
            let ledger = timeout(limits::UNBLOCK, sandbox.values().lock()).await;
            let ledger = ledger.map_err(|_| SnapshotError::Blocked)?;
            if !self.lifecycle.is_blocked(sandbox.id()) {
                return Ok(ledger);
            }
            // Since this waited for the lock.
        }
        Err(Error::ConcurrentTransitions)
    }

    /// What one value takes now.
    async fn stored(&self, id: &SandboxId, key: &ValueKey) -> Result<ValueTotals, Error> {
        // The key itself comes before all others that begin with it.
        let first = self.store.value_infos(id, key.as_str(), None, 1).await?.pop();
        Ok(first.filter(|info| info.key == *key).map_or_else(ValueTotals::default, |info| info.totals()))
    }

    fn charge(&self, sandbox: &Sandbox, totals: ValueTotals) -> Charge {
        self.quotas.existing_values(&sandbox.owner().project, totals.bytes)
    }
}

impl Change {
    fn key(&self) -> &ValueKey {
        match self {
            Self::Put(value) => &value.key,
            Self::Delete(key) => key,
        }
    }

    /// What the value takes afterwards.
    fn totals(&self) -> ValueTotals {
        match self {
            Self::Put(value) => ValueTotals::of(std::slice::from_ref(value)),
            Self::Delete(_) => ValueTotals::default(),
        }
    }
}
