//! What projects may use and what they use: quotas, the daemon's permits to run, and the usage of each day.
//!
//! Something that counts is charged before it is begun, and the [`Charge`] is held with it. So parallel requests never use
//! more than a quota, and an error takes back what was charged. What a project uses is not stored: at a start, the
//! components charge what they restore. Only the usage of each day is written, every [`limits::USAGE_EVERY`].

mod accounts;
mod bases;
mod charge;
mod days;
mod run_permit;
mod stored;
#[cfg(test)]
mod tests;
mod turns;
mod usage;

use std::sync::Arc;

use tokio::sync::Mutex;

use self::accounts::Accounts;
pub(in crate::service) use self::accounts::Denied;
pub(in crate::service) use self::charge::{BaseCharge, Charge, Promise, SnapshotCharge};
use self::charge::{SharedAccounts, now};
pub(in crate::service) use self::run_permit::RunPermit;
use self::run_permit::RunningOf;
pub(in crate::service) use self::turns::{Turn, Turns};
pub use self::usage::{QuotaUse, UsageReport};
use super::{Authorized, ByOperator, Context, Error, QuotaError};
use crate::egress::Budget;
use crate::model::{
    Amounts, NetworkMode, Owner, ProjectName, ProjectQuotas, Quota, Resources, SandboxSpec, SnapshotRecord,
    UidSlot,
};
use crate::store::Store;

/// The quotas and accounts of all projects.
#[derive(Debug)]
pub struct Quotas {
    store: Arc<Store>,
    accounts: SharedAccounts,
    running: RunningOf,
    /// Image of sandboxes that name none.
    default_image: String,
    /// Held while quotas are changed.
    changing: Mutex<()>,
}

impl Quotas {
    pub(in crate::service) async fn new(context: &Context) -> Result<Self, Error> {
        let setup = &context.setup;
        let capacity = Amounts::of(Quota::RunningSandboxes, setup.limits.max_concurrent as u64)
            .and(Quota::Sandboxes, UidSlot::all().count() as u64);
        let mut accounts = Accounts::new(capacity, setup.project_quotas.clone());
        for (project, quotas) in context.store.quotas().await? {
            accounts.set_quotas(&project, quotas);
        }
        let found = Self {
            store: Arc::clone(&context.store),
            accounts: SharedAccounts::new(accounts),
            running: RunningOf::default(),
            default_image: setup.image.clone(),
            changing: Mutex::default(),
        };
        found.restore_usage().await?;
        Ok(found)
    }

    /// The quotas that were set for a project.
    pub fn of(&self, project: &ProjectName) -> ProjectQuotas {
        self.accounts.lock().of(project).own.clone()
    }

    /// Replaces the quotas of a project. What it uses stays, also if it is more.
    pub async fn set(
        &self,
        project: &Authorized<ProjectName>,
        quotas: ProjectQuotas,
        _: &ByOperator,
    ) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        let available = self.accounts.lock().guaranteeable(project);
        if quotas.guaranteed_running.is_some_and(|guaranteed| guaranteed > available) {
            return Err(QuotaError::Guarantees { available }.into());
        }
        self.store.put_quotas(project, &quotas).await?;
        self.accounts.lock().set_quotas(project, quotas);
        Ok(())
    }

    /// Fails if the project's quotas do not permit an image or a network mode.
    pub(in crate::service) fn check_spec(&self, spec: &SandboxSpec) -> Result<(), QuotaError> {
        let images = self.accounts.lock().of(&spec.owner.project).quotas.images.clone();
        let image = spec.image.as_ref().unwrap_or(&self.default_image);
        if images.is_some_and(|images| !images.contains(image)) {
            return Err(QuotaError::Image { image: image.clone() });
        }
        self.check_network_mode(&spec.owner.project, spec.network.mode)
    }

    /// Fails if the project's quotas do not permit a network mode.
    pub(in crate::service) fn check_network_mode(
        &self,
        project: &ProjectName,
        mode: NetworkMode,
    ) -> Result<(), QuotaError> {
        let modes = self.accounts.lock().of(project).quotas.network_modes.clone();
        match modes.is_some_and(|modes| !modes.contains(&mode)) {
            true => Err(QuotaError::NetworkMode { mode }),
            false => Ok(()),
        }
    }

    /// Fails if a subject, which has this many sandboxes, may not have another one.
    pub(in crate::service) fn check_subject(&self, owner: &Owner, sandboxes: u64) -> Result<(), QuotaError> {
        let value = self.accounts.lock().of(&owner.project).quotas.sandboxes_per_subject;
        match value.filter(|value| owner.subject.is_some() && sandboxes >= *value) {
            Some(value) => Err(QuotaError::OfSubject { value }),
            None => Ok(()),
        }
    }

    /// Charges a project for a new sandbox and its disk.
    pub(in crate::service) fn sandbox(
        &self,
        project: &ProjectName,
        resources: Resources,
    ) -> Result<Charge, Denied> {
        self.charge(project, sandbox_amounts(resources))
    }

    /// As [`Self::sandbox`], for a sandbox that exists.
    pub(in crate::service) fn existing_sandbox(&self, project: &ProjectName, resources: Resources) -> Charge {
        self.charge_existing(project, sandbox_amounts(resources))
    }

    /// Charges the project of an owner for a sandbox that is about to run: its permit, its memory and its processors.
    pub(in crate::service) fn run(&self, owner: &Owner, resources: Resources) -> Result<RunPermit, Denied> {
        let charge = self.charge(&owner.project, running_amounts(resources))?;
        Ok(self.running.permit(owner, charge))
    }

    /// As [`Self::run`], for a sandbox that runs.
    pub(in crate::service) fn existing_run(&self, owner: &Owner, resources: Resources) -> RunPermit {
        self.running.permit(owner, self.charge_existing(&owner.project, running_amounts(resources)))
    }

    /// How many sandboxes of an owner run, or are about to.
    pub(in crate::service) fn running_of(&self, owner: &Owner) -> u64 {
        self.running.of(owner)
    }

    /// Keeps the permit of the next sandbox of the project that is parked, so that no other project takes it.
    pub(in crate::service) fn promise(&self, project: &ProjectName) -> Promise {
        Promise::new(&self.accounts, project)
    }

    /// Whether a project can run one more sandbox without parking another.
    pub(in crate::service) fn has_room(&self, project: &ProjectName) -> bool {
        self.accounts.lock().room(project, Quota::RunningSandboxes) > 0
    }

    /// Whether a project runs no more sandboxes than it is guaranteed.
    pub(in crate::service) fn is_within_guarantee(&self, project: &ProjectName) -> bool {
        let mut accounts = self.accounts.lock();
        let account = accounts.of(project);
        let guaranteed = account.quotas.guaranteed_running.unwrap_or_default();
        account.used(Quota::RunningSandboxes) <= guaranteed
    }

    /// Charges a project for a command that is about to be started.
    pub(in crate::service) fn command(&self, project: &ProjectName) -> Result<Charge, Error> {
        self.charge_own(project, Amounts::of(Quota::Commands, 1))
    }

    /// Counts a command that was started.
    pub(in crate::service) fn count_command(&self, project: &ProjectName) {
        self.accounts.lock().of(project).days.count_command(now().day);
    }

    /// Charges a project for a command that runs already.
    pub(in crate::service) fn existing_command(&self, project: &ProjectName) -> Charge {
        self.charge_existing(project, Amounts::of(Quota::Commands, 1))
    }

    /// The longest time limit of a command of the project, if it has a quota for that.
    pub(in crate::service) fn command_timeout(&self, project: &ProjectName) -> Option<std::time::Duration> {
        self.accounts.lock().of(project).quotas.command_timeout
    }

    /// Charges a project for a link that is about to be created.
    pub(in crate::service) fn link(&self, project: &ProjectName) -> Result<Charge, Error> {
        self.charge_own(project, Amounts::of(Quota::Links, 1))
    }

    /// Charges a project for a link that is valid already.
    pub(in crate::service) fn existing_link(&self, project: &ProjectName) -> Charge {
        self.charge_existing(project, Amounts::of(Quota::Links, 1))
    }

    /// Charges a project for values of this size that are kept already.
    pub(in crate::service) fn existing_values(&self, project: &ProjectName, bytes: u64) -> Charge {
        self.charge_existing(project, Amounts::of(Quota::ValueBytes, bytes))
    }

    /// The budget of a project's outbound connections.
    pub(in crate::service) fn egress(&self, project: &ProjectName) -> Arc<Budget> {
        Arc::clone(&self.accounts.lock().of(project).egress)
    }

    /// Fails if the project's quota does not permit one more sandbox over a base of this size.
    pub(in crate::service) fn check_base(
        &self,
        project: &ProjectName,
        name: &str,
        bytes: u64,
    ) -> Result<(), QuotaError> {
        self.accounts.lock().check_base(project, name, bytes)
    }

    /// Charges a project for a sandbox that is about to be over a base.
    pub(in crate::service) fn base(
        &self,
        project: &ProjectName,
        name: &str,
        bytes: u64,
    ) -> Result<BaseCharge, QuotaError> {
        let mut accounts = self.accounts.lock();
        accounts.check_base(project, name, bytes)?;
        accounts.add_base(project, name, bytes);
        Ok(BaseCharge::new(&self.accounts, project, name))
    }

    /// As [`Self::base`], for a sandbox that exists.
    pub(in crate::service) fn existing_base(
        &self,
        project: &ProjectName,
        name: &str,
        bytes: u64,
    ) -> BaseCharge {
        self.accounts.lock().add_base(project, name, bytes);
        BaseCharge::new(&self.accounts, project, name)
    }

    /// Fails if the project has no room for another snapshot.
    pub(in crate::service) fn check_storable(&self, project: &ProjectName) -> Result<(), QuotaError> {
        self.accounts.lock().check_storable(project)
    }

    /// Charges a project for a snapshot that is about to be recorded.
    pub(in crate::service) fn snapshot(
        &self,
        snapshot: &SnapshotRecord,
    ) -> Result<SnapshotCharge, QuotaError> {
        self.accounts.lock().add_snapshot(snapshot)?;
        Ok(SnapshotCharge::new(&self.accounts, snapshot))
    }

    /// Charges a project for a snapshot that is recorded.
    pub(in crate::service) fn existing_snapshot(&self, snapshot: &SnapshotRecord) {
        self.accounts.lock().add_existing_snapshot(snapshot);
    }

    /// Takes back the charge for a snapshot that was deleted.
    pub(in crate::service) fn release_snapshot(&self, snapshot: &SnapshotRecord) {
        self.accounts.lock().remove_snapshot(snapshot);
    }

    fn charge(&self, project: &ProjectName, amounts: Amounts) -> Result<Charge, Denied> {
        self.accounts.lock().charge(project, &amounts, now())?;
        Ok(Charge::new(&self.accounts, project, amounts))
    }

    /// As [`Self::charge`], for what projects do not share.
    fn charge_own(&self, project: &ProjectName, amounts: Amounts) -> Result<Charge, Error> {
        self.accounts.lock().charge_own(project, &amounts, now())?;
        Ok(Charge::new(&self.accounts, project, amounts))
    }

    fn charge_existing(&self, project: &ProjectName, amounts: Amounts) -> Charge {
        self.accounts.lock().charge_existing(project, &amounts, now());
        Charge::new(&self.accounts, project, amounts)
    }
}

fn sandbox_amounts(resources: Resources) -> Amounts {
    Amounts::of(Quota::Sandboxes, 1).and(Quota::DiskMb, resources.disk_mb().into())
}

fn running_amounts(resources: Resources) -> Amounts {
    Amounts::of(Quota::RunningSandboxes, 1)
        .and(Quota::MemoryMb, resources.memory_mb().into())
        .and(Quota::Vcpus, resources.vcpus().into())
}
