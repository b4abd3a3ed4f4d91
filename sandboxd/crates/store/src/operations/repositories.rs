//! Operations on fetched repositories.

use crate::{Error, Store};
use sandboxd_model::repository::{RepositoryKey, RepositoryRecord};

impl Store {
    /// All fetched repositories.
    pub async fn repositories(&self) -> Result<Vec<RepositoryRecord>, Error> {
        self.database.repositories().await
    }

    /// Writes a repository. Replaces the one with the same key.
    pub async fn put_repository(&self, repository: &RepositoryRecord) -> Result<(), Error> {
        self.database.put_repository(repository).await
    }

    /// Deletes a repository.
    pub async fn forget_repository(&self, key: &RepositoryKey) -> Result<(), Error> {
        self.database.delete_repository(key).await
    }
}
