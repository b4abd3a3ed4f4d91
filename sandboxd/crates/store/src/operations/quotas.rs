//! Operations on the quotas of projects, and on what projects have used.

use sandboxd_model::{ProjectName, ProjectQuotas, UsageRecord};

use crate::{Error, Store};

impl Store {
    /// The quotas of all projects that have some, in the order of the projects' names.
    pub async fn quotas(&self) -> Result<Vec<(ProjectName, ProjectQuotas)>, Error> {
        self.database.quotas().await
    }

    /// Replaces the quotas of a project. Fails if the project is missing.
    pub async fn put_quotas(&self, project: &ProjectName, quotas: &ProjectQuotas) -> Result<(), Error> {
        self.database.put_quotas(project, quotas).await
    }

    /// What all projects have used on this day and later ones.
    pub async fn usage_since(&self, day: i32) -> Result<Vec<UsageRecord>, Error> {
        self.database.usage_since(day).await
    }

    /// What a project has used on each of the last `limit` days on which it was used, the newest first.
    pub async fn usage_of(&self, project: &ProjectName, limit: u32) -> Result<Vec<UsageRecord>, Error> {
        self.database.usage_of(project, limit).await
    }

    /// Writes what projects have used. No number that is stored becomes smaller. Skips projects that do not exist.
    pub async fn put_usage(&self, records: &[UsageRecord]) -> Result<(), Error> {
        self.database.put_usage(records).await
    }

    /// Deletes what was used before a day.
    pub async fn trim_usage(&self, before_day: i32) -> Result<(), Error> {
        self.database.delete_usage_before(before_day).await
    }
}
