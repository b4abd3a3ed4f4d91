//! What projects use, now and per day.

use std::collections::BTreeMap;

use super::charge::now;
use super::{Quotas, SharedAccounts};
use crate::model::{DayUsage, ProjectName, Quota, UsageRecord, limits};
use crate::service::{Authorized, Error};

/// What a project uses.
#[derive(Debug, Clone)]
pub struct UsageReport {
    /// Now.
    pub now: Vec<QuotaUse>,
    /// On each of the last [`limits::USAGE_DAYS`] on which it was used, the newest first. Days are numbered since the Unix
    /// epoch, in UTC.
    pub days: Vec<(i32, DayUsage)>,
}

/// How much of a quota is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUse {
    /// The quota.
    pub quota: Quota,
    /// What is used now.
    pub used: u64,
    /// The limit that applies.
    pub limit: Option<u64>,
}

impl Quotas {
    /// What a project uses now and has used per day.
    pub async fn usage(&self, project: &Authorized<ProjectName>) -> Result<UsageReport, Error> {
        let stored = self.store.usage_of(project, limits::USAGE_DAYS as u32).await?;
        let first = now().day - limits::USAGE_DAYS;
        let stored = stored.into_iter().filter(|record| record.day > first);
        let mut days: BTreeMap<i32, DayUsage> = stored.map(|record| (record.day, record.usage)).collect();
        let mut accounts = self.accounts.lock();
        let account = accounts.of(project);
        account.advance(now());
        // The days in memory are newer than the stored ones.
        days.extend(account.days.in_memory());
        let used = |quota| QuotaUse { quota, used: account.used(quota), limit: account.quotas.limit(quota) };
        Ok(UsageReport { now: Quota::ALL.map(used).to_vec(), days: days.into_iter().rev().collect() })
    }

    /// Continues today and yesterday from the store.
    pub(super) async fn restore_usage(&self) -> Result<(), Error> {
        let today = now().day;
        let records = self.store.usage_since(today - 1).await?;
        let mut accounts = self.accounts.lock();
        for UsageRecord { project, day, usage } in records {
            let account = accounts.of(&project);
            account.days.restore(day, usage, &account.egress, today);
        }
        Ok(())
    }

    /// Writes what was used since the last call.
    pub(in crate::service) async fn write_usage(&self) -> Result<(), Error> {
        let unwritten = unwritten(&self.accounts);
        if unwritten.is_empty() {
            return Ok(());
        }
        self.store.put_usage(&unwritten).await?;
        let (mut accounts, today) = (self.accounts.lock(), now().day);
        for UsageRecord { project, day, usage } in unwritten {
            accounts.of(&project).days.note_written(day, usage, today);
        }
        Ok(())
    }

    /// Deletes the usage of days that are not kept any more.
    pub(in crate::service) async fn trim_usage(&self) -> Result<(), Error> {
        Ok(self.store.trim_usage(now().day - limits::USAGE_DAYS + 1).await?)
    }
}

fn unwritten(accounts: &SharedAccounts) -> Vec<UsageRecord> {
    let mut accounts = accounts.lock();
    let mut found = Vec::new();
    for (project, account) in accounts.all() {
        account.advance(now());
        let days = account.days.unwritten().into_iter();
        found.extend(days.map(|(day, usage)| UsageRecord { project: project.clone(), day, usage }));
    }
    found
}
