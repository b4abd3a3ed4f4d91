//! Ids of sandboxes.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::subject::Subject;

/// Id of a sandbox at its provider, and the subject that it belongs to. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SandboxId {
    id: Arc<str>,
    #[serde(skip)]
    subject: Option<Subject>,
}

impl SandboxId {
    /// Returns the provider's text.
    pub fn as_str(&self) -> &str {
        &self.id
    }

    /// Returns the id of the same sandbox, as one of a subject.
    pub fn of_subject(mut self, subject: Option<&Subject>) -> Self {
        self.subject = subject.cloned();
        self
    }

    /// Returns the subject that the sandbox belongs to at its provider, if any. Vercel has no subjects: there, the name of a
    /// sandbox says whose it is.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }
}

impl From<String> for SandboxId {
    fn from(id: String) -> Self {
        Self { id: id.into(), subject: None }
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}
