//! Ids of sandboxes.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Id of a sandbox at its provider. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SandboxId(Arc<str>);

impl SandboxId {
    /// Creates an id from the provider's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SandboxId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
