//! The quotas and the usage of the backend in memory.

use async_trait::async_trait;
use sandboxd_model::{DayUsage, ProjectName, ProjectQuotas, UsageRecord};
use sandboxd_store::{Error, ErrorKind, QuotaTable};

use super::Opened;

#[async_trait]
impl QuotaTable for Opened {
    async fn quotas(&self) -> Result<Vec<(ProjectName, ProjectQuotas)>, Error> {
        self.read(|tables| {
            let copy = |(project, quotas): (&ProjectName, &ProjectQuotas)| (project.clone(), quotas.clone());
            tables.quotas.iter().map(copy).collect()
        })
    }

    async fn put_quotas(&self, project: &ProjectName, quotas: &ProjectQuotas) -> Result<(), Error> {
        self.write(|tables| {
            if !tables.projects.contains_key(project) {
                return Err(Error::new(ErrorKind::Refused, "the project does not exist"));
            }
            tables.quotas.insert(project.clone(), quotas.clone());
            Ok(())
        })
    }

    async fn usage_since(&self, day: i32) -> Result<Vec<UsageRecord>, Error> {
        self.read(|tables| tables.usage.iter().filter(|((_, at), _)| *at >= day).map(record).collect())
    }

    async fn usage_of(&self, project: &ProjectName, limit: u32) -> Result<Vec<UsageRecord>, Error> {
        self.read(|tables| {
            let of_project = tables.usage.iter().rev().filter(|((found, _), _)| found == project);
            of_project.take(limit as usize).map(record).collect()
        })
    }

    async fn put_usage(&self, records: &[UsageRecord]) -> Result<(), Error> {
        self.write(|tables| {
            for record in records.iter().filter(|record| tables.projects.contains_key(&record.project)) {
                let stored = tables.usage.entry((record.project.clone(), record.day)).or_default();
                *stored = DayUsage {
                    running_ms: stored.running_ms.max(record.usage.running_ms),
                    peak_running: stored.peak_running.max(record.usage.peak_running),
                    commands: stored.commands.max(record.usage.commands),
                    egress_bytes: stored.egress_bytes.max(record.usage.egress_bytes),
                    snapshot_bytes: stored.snapshot_bytes.max(record.usage.snapshot_bytes),
                };
            }
            Ok(())
        })
    }

    async fn delete_usage_before(&self, day: i32) -> Result<(), Error> {
        self.write(|tables| {
            tables.usage.retain(|(_, at), _| *at >= day);
            Ok(())
        })
    }
}

fn record(((project, day), usage): (&(ProjectName, i32), &DayUsage)) -> UsageRecord {
    UsageRecord { project: project.clone(), day: *day, usage: *usage }
}
