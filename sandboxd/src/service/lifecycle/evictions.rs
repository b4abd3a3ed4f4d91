//! Locks for parking a sandbox to make room for another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::ProjectName;

type Lock = Arc<tokio::sync::Mutex<()>>;

/// Which sandboxes are being parked for others.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// One lock for each project, held while a sandbox is parked to free its permit for another.
    of_projects: Mutex<HashMap<ProjectName, Lock>>,
    /// Held while sandboxes are parked because too many run.
    of_surplus: tokio::sync::Mutex<()>,
}

impl Evictions {
    pub(super) fn of(&self, project: &ProjectName) -> Lock {
        let mut locks = self.of_projects.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(project.clone()).or_default())
    }

    pub(super) fn of_surplus(&self) -> &tokio::sync::Mutex<()> {
        &self.of_surplus
    }
}
