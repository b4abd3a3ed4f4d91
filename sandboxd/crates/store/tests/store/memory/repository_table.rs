//! The fetched repositories of the backend in memory.

use async_trait::async_trait;
use sandboxd_model::repository::{RepositoryKey, RepositoryRecord};
use sandboxd_store::{Error, RepositoryTable};

use super::Opened;

#[async_trait]
impl RepositoryTable for Opened {
    async fn repositories(&self) -> Result<Vec<RepositoryRecord>, Error> {
        self.read(|tables| tables.repositories.values().cloned().collect())
    }

    async fn put_repository(&self, repository: &RepositoryRecord) -> Result<(), Error> {
        self.write(|tables| {
            tables.repositories.insert(repository.key.clone(), repository.clone());
            Ok(())
        })
    }

    async fn delete_repository(&self, key: &RepositoryKey) -> Result<(), Error> {
        self.write(|tables| {
            tables.repositories.remove(key);
            Ok(())
        })
    }
}
