//! The values of the backend in memory.

use async_trait::async_trait;
use sandbox_api::SandboxId;
use sandboxd_model::value::{KeptValue, ValueInfo, ValueKey, ValueTotals};
use sandboxd_store::{Error, ErrorKind, ValueTable};

use super::{Opened, Tables};

#[async_trait]
impl ValueTable for Opened {
    async fn value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<Option<KeptValue>, Error> {
        self.read(|tables| tables.values.get(&(sandbox.clone(), key.clone())).cloned())
    }

    async fn value_infos(
        &self,
        sandbox: &SandboxId,
        prefix: &str,
        after: Option<&ValueKey>,
        limit: u32,
    ) -> Result<Vec<ValueInfo>, Error> {
        self.read(|tables| {
            let values = of_sandbox(tables, sandbox).into_iter();
            let follows = |value: &KeptValue| after.is_none_or(|after| value.key > *after);
            let found = values.filter(|value| value.key.as_str().starts_with(prefix) && follows(value));
            found.take(limit as usize).map(info).collect()
        })
    }

    async fn values(&self, sandbox: &SandboxId) -> Result<Vec<KeptValue>, Error> {
        self.read(|tables| of_sandbox(tables, sandbox))
    }

    async fn value_totals(&self) -> Result<Vec<(SandboxId, ValueTotals)>, Error> {
        self.read(|tables| {
            let mut sandboxes: Vec<_> = tables.values.keys().map(|(sandbox, _)| sandbox.clone()).collect();
            sandboxes.dedup();
            let totals = |sandbox: SandboxId| {
                let totals = ValueTotals::of(&of_sandbox(tables, &sandbox));
                (sandbox, totals)
            };
            sandboxes.into_iter().map(totals).collect()
        })
    }

    async fn value_totals_of(&self, sandbox: &SandboxId) -> Result<ValueTotals, Error> {
        self.read(|tables| ValueTotals::of(&of_sandbox(tables, sandbox)))
    }

    async fn put_value(&self, sandbox: &SandboxId, value: &KeptValue) -> Result<(), Error> {
        self.write(|tables| {
            if !tables.sandboxes.contains_key(sandbox) {
                return Err(Error::new(ErrorKind::Refused, "the sandbox does not exist"));
            }
            tables.values.insert((sandbox.clone(), value.key.clone()), value.clone());
            Ok(())
        })
    }

    async fn replace_values(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        self.write(|tables| replace(tables, sandbox, values))
    }

    async fn delete_value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<(), Error> {
        self.write(|tables| {
            tables.values.remove(&(sandbox.clone(), key.clone()));
            Ok(())
        })
    }
}

/// Replaces all values of a sandbox.
pub(super) fn replace(tables: &mut Tables, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
    if !tables.sandboxes.contains_key(sandbox) {
        return Err(Error::new(ErrorKind::Refused, "the sandbox does not exist"));
    }
    tables.values.retain(|(owner, _), _| owner != sandbox);
    let values = values.iter().map(|value| ((sandbox.clone(), value.key.clone()), value.clone()));
    tables.values.extend(values);
    Ok(())
}

fn of_sandbox(tables: &Tables, sandbox: &SandboxId) -> Vec<KeptValue> {
    let values = tables.values.iter().filter(|((owner, _), _)| owner == sandbox);
    values.map(|(_, value)| value.clone()).collect()
}

fn info(value: KeptValue) -> ValueInfo {
    let KeptValue { key, value, updated_at_ms } = value;
    ValueInfo { key, bytes: value.len() as u64, updated_at_ms }
}
