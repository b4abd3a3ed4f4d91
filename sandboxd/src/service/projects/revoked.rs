//! Subjects whose tokens were revoked.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::model::{Owner, Refusal, RevokedSubject, limits};
use crate::service::Error;

/// Until when the tokens of subjects are revoked.
#[derive(Debug, Default)]
pub(super) struct Revoked(RwLock<HashMap<Owner, i64>>);

impl Revoked {
    pub(super) fn new(found: Vec<RevokedSubject>) -> Self {
        let owner = |found: &RevokedSubject| Owner {
            project: found.project.clone(),
            subject: Some(found.subject.clone()),
        };
        Self(RwLock::new(found.iter().map(|found| (owner(found), found.until_ms)).collect()))
    }

    /// Whether what an owner made at a time has ended.
    pub(super) fn includes(&self, owner: &Owner, at_ms: i64) -> bool {
        let revoked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        revoked.get(owner).is_some_and(|until_ms| at_ms <= *until_ms)
    }

    /// Adds an owner, or makes the time of one later. Fails if its project has too many.
    pub(super) fn add(&self, owner: Owner, until_ms: i64) -> Result<(), Error> {
        let mut revoked = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let count = revoked.keys().filter(|known| known.project == owner.project).count();
        if !revoked.contains_key(&owner) && count >= limits::MAX_REVOKED_SUBJECTS {
            let value = limits::MAX_REVOKED_SUBJECTS as u64;
            return Err(Refusal::LimitReached { limit: "revoked subjects of a project".into(), value }.into());
        }
        // Two requests at the same time, or a clock that was set back, must not make it earlier.
        let until = revoked.entry(owner).or_insert(until_ms);
        *until = until_ms.max(*until);
        Ok(())
    }
}
