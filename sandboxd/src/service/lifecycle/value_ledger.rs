//! How much is kept with a sandbox by key, and what its project is charged for that.

use sandbox_api::SandboxId;

use super::Error;
use crate::model::value::ValueTotals;
use crate::model::{Quota, Refusal, limits};
use crate::service::quotas::Charge;
use crate::store::Store;

/// The totals of one sandbox. It is locked while its values change.
#[derive(Debug, Default)]
pub(in crate::service) struct ValueLedger {
    /// `None` if it is unknown whether the last change was written.
    totals: Option<ValueTotals>,
    charge: Option<Charge>,
}

impl ValueLedger {
    /// What is kept with the sandbox now.
    pub(in crate::service) async fn present(
        &self,
        store: &Store,
        sandbox: &SandboxId,
    ) -> Result<ValueTotals, Error> {
        match self.totals {
            Some(totals) => Ok(totals),
            None => Ok(store.value_totals_of(sandbox).await?),
        }
    }

    /// Begins a change. `charge` makes the project's charge for the present values, if there is none yet. Fails if there would be
    /// too much, unless there is less than before.
    pub(in crate::service) fn begin(
        &mut self,
        before: ValueTotals,
        after: ValueTotals,
        charge: impl FnOnce() -> Charge,
    ) -> Result<(), Error> {
        let reached = |limit: &str, value| Err(Refusal::LimitReached { limit: limit.into(), value }.into());
        if after.values > before.values.max(limits::MAX_VALUES) {
            return reached("values", limits::MAX_VALUES);
        }
        if after.bytes > before.bytes.max(limits::MAX_VALUES_BYTES) {
            return reached("bytes of keys and values", limits::MAX_VALUES_BYTES);
        }
        let charge = self.charge.get_or_insert_with(charge);
        charge.resize(Quota::ValueBytes, before.bytes.max(after.bytes))?;
        // Until the caller knows that the change was written.
        self.totals = None;
        Ok(())
    }

    /// Sets what is kept now. `charge` is as in [`Self::begin`].
    pub(in crate::service) fn set(&mut self, totals: ValueTotals, charge: impl FnOnce() -> Charge) {
        self.totals = Some(totals);
        let charge = self.charge.get_or_insert_with(charge);
        // At least as much has been charged, so this cannot fail.
        let _ = charge.resize(Quota::ValueBytes, totals.bytes);
    }

    /// As [`Self::set`], with a charge for exactly that, after a change that may not have [begun](Self::begin) here.
    pub(in crate::service) fn replace(&mut self, totals: ValueTotals, charge: Charge) {
        (self.totals, self.charge) = (Some(totals), Some(charge));
    }
}
