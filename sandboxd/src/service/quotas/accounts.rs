//! The account of each project: its quotas, and what it uses now.
//!
//! There is neither a lock nor a clock here, so each rule is one plain function. An account uses more than its quota only if
//! the quota was lowered, or if what exists at a start is more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bases::Bases;
use super::days::{Days, Now};
use super::stored::Stored;
use crate::egress::Budget;
use crate::model::{Amounts, ProjectName, ProjectQuotas, Quota, SnapshotRecord};
use crate::service::QuotaError;

/// What the daemon has for all projects together.
const SHARED: [Quota; 2] = [Quota::Sandboxes, Quota::RunningSandboxes];

/// Why something is not charged.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::service) enum Denied {
    /// The project may not use more.
    Quota(QuotaError),
    /// The daemon has no more, or keeps the rest for other projects.
    Full,
}

/// All accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    /// What the daemon has, of [`SHARED`].
    capacity: Amounts,
    /// What all projects use.
    total: Amounts,
    defaults: ProjectQuotas,
    accounts: BTreeMap<ProjectName, Account>,
}

/// The account of one project.
#[derive(Debug)]
pub(super) struct Account {
    /// The quotas that were set for the project.
    pub(super) own: ProjectQuotas,
    /// The quotas that apply.
    pub(super) quotas: ProjectQuotas,
    used: Amounts,
    /// Running sandboxes that it is about to park for others of its own.
    promised: u64,
    /// Permits that it has freed for those. At most `promised`.
    freed: u64,
    /// Its snapshots.
    stored: Stored,
    /// Those that its sandboxes are over.
    bases: Bases,
    /// Its outbound bytes of today, and the quota for them.
    pub(super) egress: Arc<Budget>,
    pub(super) days: Days,
}

impl Account {
    fn new(own: ProjectQuotas, defaults: &ProjectQuotas) -> Self {
        let quotas = own.or(defaults);
        let egress = Budget::new(quotas.limit(Quota::EgressBytesPerDay));
        Self {
            own,
            quotas,
            used: Amounts::default(),
            promised: 0,
            freed: 0,
            stored: Stored::default(),
            bases: Bases::default(),
            egress: Arc::new(egress),
            days: Days::default(),
        }
    }

    /// How much it uses of a quota.
    pub(super) fn used(&self, quota: Quota) -> u64 {
        match quota {
            Quota::SnapshotBytes => self.stored.bytes(),
            Quota::BaseBytes => self.bases.bytes(),
            Quota::EgressBytesPerDay => self.egress.used(),
            charged => self.used.get(charged),
        }
    }

    fn guaranteed(&self) -> u64 {
        self.quotas.guaranteed_running.unwrap_or_default()
    }

    /// How much of what the daemon has is kept for this project.
    fn kept(&self, quota: Quota) -> u64 {
        let unused = self.guaranteed().saturating_sub(self.used(quota));
        match quota {
            Quota::RunningSandboxes => unused.max(self.freed),
            _ => unused,
        }
    }

    /// Brings its days up to `now`.
    pub(super) fn advance(&mut self, now: Now) {
        let running = self.used(Quota::RunningSandboxes);
        self.days.advance(now, running, self.stored.bytes(), &self.egress);
    }

    fn check_quotas(&self, wanted: &Amounts) -> Result<(), QuotaError> {
        for quota in Quota::ALL {
            let (wanted, Some(value)) = (wanted.get(quota), self.quotas.limit(quota)) else { continue };
            if wanted > value {
                return Err(QuotaError::TooMuch { quota, value, wanted });
            }
            if wanted > 0 && self.used(quota).saturating_add(wanted) > value {
                return Err(QuotaError::Reached { quota, value });
            }
        }
        Ok(())
    }
}

impl Accounts {
    /// Without projects. `capacity` is what the daemon has, and `defaults` apply where a project has no quota.
    pub(super) fn new(capacity: Amounts, defaults: ProjectQuotas) -> Self {
        Self { capacity, total: Amounts::default(), defaults, accounts: BTreeMap::new() }
    }

    /// The account of a project. The operator's has no defaults, so that it works as if there were no projects. Nor has the
    /// daemon's own, whose limits are settings.
    pub(super) fn of(&mut self, project: &ProjectName) -> &mut Account {
        let none = ProjectQuotas::default();
        let is_exempt = project.is_default() || project.is_reserved();
        let defaults = if is_exempt { &none } else { &self.defaults };
        // Not `entry`, which copies the name each time.
        if !self.accounts.contains_key(project) {
            let account = Account::new(ProjectQuotas::default(), defaults);
            self.accounts.insert(project.clone(), account);
        }
        self.accounts.get_mut(project).expect("it was added if it was missing")
    }

    /// All accounts.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (&ProjectName, &mut Account)> {
        self.accounts.iter_mut()
    }

    /// Sets the quotas of a project. What it uses stays, also if it is more.
    pub(super) fn set_quotas(&mut self, project: &ProjectName, own: ProjectQuotas) {
        let none = ProjectQuotas::default();
        let defaults = if project.is_default() { none } else { self.defaults.clone() };
        let account = self.of(project);
        account.quotas = own.or(&defaults);
        account.own = own;
        account.egress.set_max(account.quotas.limit(Quota::EgressBytesPerDay));
    }

    /// Running sandboxes that a project can be guaranteed besides what the others are.
    pub(super) fn guaranteeable(&self, project: &ProjectName) -> u64 {
        let others = self.accounts.iter().filter(|(name, _)| *name != project);
        let guaranteed: u64 = others.map(|(_, account)| account.guaranteed()).sum();
        self.capacity.get(Quota::RunningSandboxes).saturating_sub(guaranteed)
    }

    /// Charges a project if its quotas and the daemon permit it: all of `wanted`, or nothing.
    pub(super) fn charge(&mut self, project: &ProjectName, wanted: &Amounts, now: Now) -> Result<(), Denied> {
        self.of(project).check_quotas(wanted).map_err(Denied::Quota)?;
        let is_full = |quota| wanted.get(quota) > 0 && self.room(project, quota) < wanted.get(quota);
        if SHARED.into_iter().any(is_full) {
            return Err(Denied::Full);
        }
        self.charge_existing(project, wanted, now);
        Ok(())
    }

    /// Charges a project if its quotas permit it, for what projects do not share.
    pub(super) fn charge_own(
        &mut self,
        project: &ProjectName,
        wanted: &Amounts,
        now: Now,
    ) -> Result<(), QuotaError> {
        self.of(project).check_quotas(wanted)?;
        self.charge_existing(project, wanted, now);
        Ok(())
    }

    /// Charges a project for what exists already.
    pub(super) fn charge_existing(&mut self, project: &ProjectName, amounts: &Amounts, now: Now) {
        self.total.add(amounts);
        let account = self.of(project);
        account.advance(now);
        account.used.add(amounts);
        account.freed = account.freed.saturating_sub(amounts.get(Quota::RunningSandboxes));
        account.advance(now);
    }

    /// Takes back what was charged. A permit that was promised is kept for the project.
    pub(super) fn release(&mut self, project: &ProjectName, amounts: &Amounts, now: Now) {
        let was_total = self.total.take(amounts);
        let account = self.of(project);
        account.advance(now);
        let was_charged = account.used.take(amounts);
        account.freed = (account.freed + amounts.get(Quota::RunningSandboxes)).min(account.promised);
        debug_assert!(was_total && was_charged, "released more than was charged");
    }

    /// Charges `to` for what `from` was charged for, if the quotas of `to` and the daemon permit it. Otherwise nothing changes.
    pub(super) fn move_charge(
        &mut self,
        from: &ProjectName,
        to: &ProjectName,
        amounts: &Amounts,
        now: Now,
    ) -> Result<(), Denied> {
        self.release(from, amounts, now);
        self.charge(to, amounts, now).inspect_err(|_| self.charge_existing(from, amounts, now))
    }

    /// How much of what the daemon has a project can still take.
    pub(super) fn room(&self, project: &ProjectName, quota: Quota) -> u64 {
        let free = self.capacity.get(quota).saturating_sub(self.total.get(quota));
        let account = self.accounts.get(project);
        // No other project can take what is kept for this one.
        let own = account.map_or(0, |account| account.kept(quota));
        let others = self.accounts.iter().filter(|(name, _)| *name != project);
        let kept: u64 = others.map(|(_, account)| account.kept(quota)).sum();
        free.saturating_sub(kept).max(own.min(free))
    }

    /// Keeps the next permit that the project frees for itself.
    pub(super) fn promise(&mut self, project: &ProjectName) {
        self.of(project).promised += 1;
    }

    pub(super) fn end_promise(&mut self, project: &ProjectName) {
        let account = self.of(project);
        account.promised = account.promised.saturating_sub(1);
        account.freed = account.freed.min(account.promised);
    }

    /// Charges a project for a snapshot, unless its quota does not permit it.
    pub(super) fn add_snapshot(&mut self, snapshot: &SnapshotRecord) -> Result<(), QuotaError> {
        let account = self.of(&snapshot.owner.project);
        let quota = Quota::SnapshotBytes;
        let more = account.stored.bytes_with(snapshot).saturating_sub(account.stored.bytes());
        account.check_quotas(&Amounts::of(quota, more))?;
        account.stored.add(snapshot);
        Ok(())
    }

    /// Charges a project for a snapshot that exists already.
    pub(super) fn add_existing_snapshot(&mut self, snapshot: &SnapshotRecord) {
        self.of(&snapshot.owner.project).stored.add(snapshot);
    }

    pub(super) fn remove_snapshot(&mut self, snapshot: &SnapshotRecord) {
        self.of(&snapshot.owner.project).stored.remove(snapshot);
    }

    /// Fails if a project's quota does not permit one more sandbox over a base of this size.
    pub(super) fn check_base(
        &mut self,
        project: &ProjectName,
        name: &str,
        bytes: u64,
    ) -> Result<(), QuotaError> {
        let account = self.of(project);
        account.check_quotas(&Amounts::of(Quota::BaseBytes, account.bases.added_by(name, bytes)))
    }

    /// Charges a project for a sandbox over a base.
    pub(super) fn add_base(&mut self, project: &ProjectName, name: &str, bytes: u64) {
        self.of(project).bases.add(name, bytes);
    }

    pub(super) fn remove_base(&mut self, project: &ProjectName, name: &str) {
        self.of(project).bases.remove(name);
    }

    /// Whether a project may still store something.
    pub(super) fn check_storable(&mut self, project: &ProjectName) -> Result<(), QuotaError> {
        self.of(project).check_quotas(&Amounts::of(Quota::SnapshotBytes, 1))
    }
}
