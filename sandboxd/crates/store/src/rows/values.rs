//! Rows of the table `kept_values`.

use sandbox_api::SandboxId;
use sandboxd_model::value::KeptValue;

use super::{BadColumn, row};

row! {
    /// A value.
    ValueRow {
        sandbox_id: String,
        key: String,
        value: Vec<u8>,
        updated_at_ms: i64,
    }
}

impl ValueRow {
    pub(crate) fn new(sandbox: &SandboxId, value: &KeptValue) -> Self {
        Self {
            sandbox_id: sandbox.to_string(),
            key: value.key.to_string(),
            value: value.value.clone(),
            updated_at_ms: value.updated_at_ms,
        }
    }

    pub(crate) fn record(self) -> Result<KeptValue, BadColumn> {
        let key = self.key.parse().map_err(|_| BadColumn("key"))?;
        Ok(KeptValue { key, value: self.value, updated_at_ms: self.updated_at_ms })
    }
}
