//! Files of directories as they were found at the last look.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::git::DirectoryDigest;
use crate::model::repository::DirectoryName;

/// What was found in directories that are not git repositories. Has at most one entry for each directory of the settings.
#[derive(Debug, Default)]
pub(super) struct KnownFiles(Mutex<HashMap<DirectoryName, DirectoryDigest>>);

impl KnownFiles {
    pub(super) fn of(&self, name: &DirectoryName) -> Option<DirectoryDigest> {
        self.lock().get(name).cloned()
    }

    pub(super) fn remember(&self, name: &DirectoryName, found: DirectoryDigest) {
        self.lock().insert(name.clone(), found);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DirectoryName, DirectoryDigest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
