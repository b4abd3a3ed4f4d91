//! What a project is charged, until it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::accounts::{Accounts, Denied};
use super::days::Now;
use crate::model::{Amounts, ProjectName, Quota, SnapshotRecord};
use crate::service::QuotaError;
use crate::service::clock::now_ms;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The accounts, shared with the charges.
#[derive(Debug, Clone)]
pub(super) struct SharedAccounts(Arc<Mutex<Accounts>>);

impl SharedAccounts {
    pub(super) fn new(accounts: Accounts) -> Self {
        Self(Arc::new(Mutex::new(accounts)))
    }

    /// Locks the accounts. No charge may be dropped meanwhile.
    pub(super) fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time now.
pub(super) fn now() -> Now {
    Now { instant: Instant::now(), day: now_ms().div_euclid(DAY_MS) as i32 }
}

/// Part of a project's quotas that is in use. It is taken before something is begun, and held with it. So an error at any
/// step takes the charge back.
#[derive(Debug)]
pub(in crate::service) struct Charge {
    accounts: SharedAccounts,
    project: ProjectName,
    amounts: Amounts,
}

impl Charge {
    /// For what the account has been charged already.
    pub(super) fn new(accounts: &SharedAccounts, project: &ProjectName, amounts: Amounts) -> Self {
        Self { accounts: accounts.clone(), project: project.clone(), amounts }
    }

    /// Charges another project instead, if its quotas and the daemon permit it.
    pub(super) fn move_to(&mut self, project: &ProjectName) -> Result<(), Denied> {
        self.accounts.lock().move_charge(&self.project, project, &self.amounts, now())?;
        self.project = project.clone();
        Ok(())
    }

    /// Changes how much of a quota is charged that projects do not share. Only more than before can fail.
    pub(in crate::service) fn resize(&mut self, quota: Quota, amount: u64) -> Result<(), QuotaError> {
        let charged = self.amounts.get(quota);
        let difference = Amounts::of(quota, amount.abs_diff(charged));
        let mut accounts = self.accounts.lock();
        if amount > charged {
            accounts.charge_own(&self.project, &difference, now())?;
        } else {
            accounts.release(&self.project, &difference, now());
        }
        self.amounts = self.amounts.and(quota, amount);
        Ok(())
    }
}

#[cfg(test)]
impl Charge {
    /// A charge for nothing.
    pub(in crate::service) fn of_nobody(project: &ProjectName) -> Self {
        let accounts = Accounts::new(Amounts::default(), crate::model::ProjectQuotas::default());
        Self::new(&SharedAccounts::new(accounts), project, Amounts::default())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.accounts.lock().release(&self.project, &self.amounts, now());
    }
}

/// Keeps the permit of a sandbox that is parked for another one of its project.
#[derive(Debug)]
pub(in crate::service) struct Promise {
    accounts: SharedAccounts,
    project: ProjectName,
}

impl Promise {
    pub(super) fn new(accounts: &SharedAccounts, project: &ProjectName) -> Self {
        accounts.lock().promise(project);
        Self { accounts: accounts.clone(), project: project.clone() }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.accounts.lock().end_promise(&self.project);
    }
}

/// The charge for a sandbox over a base.
#[derive(Debug)]
pub(in crate::service) struct BaseCharge {
    accounts: SharedAccounts,
    project: ProjectName,
    base: String,
}

impl BaseCharge {
    /// For what the account has been charged already.
    pub(super) fn new(accounts: &SharedAccounts, project: &ProjectName, base: &str) -> Self {
        Self { accounts: accounts.clone(), project: project.clone(), base: base.to_owned() }
    }
}

impl Drop for BaseCharge {
    fn drop(&mut self) {
        self.accounts.lock().remove_base(&self.project, &self.base);
    }
}

/// The charge for a snapshot that is about to be recorded. Dropping it takes the charge back.
#[derive(Debug)]
pub(in crate::service) struct SnapshotCharge {
    accounts: SharedAccounts,
    /// `None` if the snapshot is recorded.
    snapshot: Option<SnapshotRecord>,
}

impl SnapshotCharge {
    pub(super) fn new(accounts: &SharedAccounts, snapshot: &SnapshotRecord) -> Self {
        Self { accounts: accounts.clone(), snapshot: Some(snapshot.clone()) }
    }

    /// Keeps the charge until the snapshot is deleted.
    pub(in crate::service) fn keep(mut self) {
        self.snapshot = None;
    }
}

impl Drop for SnapshotCharge {
    fn drop(&mut self) {
        if let Some(snapshot) = &self.snapshot {
            self.accounts.lock().remove_snapshot(snapshot);
        }
    }
}
