//! Checks the stored chunks, and finds the snapshots that have lost some: `sandboxd fsck`.
//!
//! Every pack is read. [`faults`] collects what is wrong with them, and [`inspect`] finds the snapshots that need it.
//! Nothing is deleted: a damaged pack is moved aside, and its intact chunks are stored again. What cannot be read is reported,
//! and the check continues. If it has to stop, it reports what it has found until then.

mod faults;
mod inspect;

use std::sync::Arc;

use tracing::warn;

use self::faults::Faults;
pub use self::faults::{PackFault, PackProblem};
use self::inspect::{Condition, Inspector};
use super::Snapshots;
use crate::model::{Refusal, SnapshotRecord, SnapshotState, limits};
use crate::packs::{CheckOptions, CheckStopped, Checked, Packs};
use crate::service::ByOperator;
use crate::service::{Error, SnapshotError};

/// Whether directories of a snapshot, or chunks that the index lacks, are lost.
pub(super) async fn is_damaged(packs: &Packs, record: &SnapshotRecord) -> Result<bool, Error> {
    let faults = Faults::default();
    Ok(Inspector::new(packs, &faults).inspect(record).await? == Condition::Damaged)
}

/// Whether a check may repair what it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckMode {
    /// Damaged packs are moved to the quarantine, and the index gets what it lacks.
    Repair,
    /// Nothing is changed.
    ReadOnly,
}

/// Findings of a check.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// Number of packs.
    pub packs: u64,
    /// Number of chunks in them.
    pub chunks: u64,
    /// Size of the packs in bytes.
    pub bytes: u64,
    /// Number of packs that are damaged or missing, or could not be read.
    pub faulty_packs: u64,
    /// The first of them.
    pub faults: Vec<PackFault>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of snapshots whose chunks are not all there.
    pub damaged_snapshots: u64,
    /// The first of them.
    pub damaged: Vec<SnapshotRecord>,
    /// Number of snapshots of which some chunks could not be read.
    pub unverified_snapshots: u64,
    /// Whether the check has reached its end.
    pub is_complete: bool,
}

impl CheckReport {
    /// Whether everything was read, is there and intact.
    pub fn is_ok(&self) -> bool {
        self.is_complete && self.faulty_packs + self.damaged_snapshots + self.unverified_snapshots == 0
    }

    fn new(checked: Checked, faults: &mut Faults) -> Self {
        Self {
            packs: checked.packs,
            chunks: checked.chunks,
            bytes: checked.bytes,
            faulty_packs: faults.count(),
            faults: faults.take_first(),
            snapshots: 0,
            damaged_snapshots: 0,
            damaged: Vec::new(),
            unverified_snapshots: 0,
            is_complete: true,
        }
    }

    fn add(&mut self, record: &SnapshotRecord, condition: Condition) {
        self.snapshots += 1;
        match condition {
            Condition::Whole => {}
            Condition::Unverified => self.unverified_snapshots += 1,
            Condition::Damaged => {
                self.damaged_snapshots += 1;
                if self.damaged.len() < limits::MAX_CHECK_FINDINGS {
                    self.damaged.push(SnapshotRecord { state: SnapshotState::Damaged, ..record.clone() });
                }
            }
        }
    }
}

impl Snapshots {
    /// Reads and verifies all chunks, and reports the snapshots that have lost some. Continues if the caller stops waiting.
    pub async fn check(self: &Arc<Self>, mode: CheckMode, _: &ByOperator) -> Result<CheckReport, Error> {
        let permit = Arc::clone(&self.checks).try_acquire_owned();
        let permit = permit.map_err(|_| SnapshotError::Busy { what: "checks", max: limits::MAX_CHECKS })?;
        let snapshots = Arc::clone(self);
        let checking = async move {
            let _permit = permit;
            snapshots.check_now(mode).await
        };
        self.tasks.run_detached(checking).await
    }

    async fn check_now(&self, mode: CheckMode) -> Result<CheckReport, Error> {
        let repair = mode == CheckMode::Repair;
        let options = CheckOptions { rebuild_index: repair, quarantine: repair };
        let mut faults = Faults::default();
        if repair {
            self.packs.check_owner().await?;
        }
        let packs = self.packs.packs().await?;
        let (checked, stopped) = match packs.check(options, |finding| faults.add(finding)).await {
            Ok(checked) => (checked, None),
            Err(CheckStopped { checked, source }) => (checked, Some(source)),
        };
        let mut report = CheckReport::new(checked, &mut faults);
        let ended = match stopped {
            // There is nothing to report.
            Some(source) if checked == Checked::default() && report.faulty_packs == 0 => {
                return Err(source.into());
            }
            Some(source) => Err(source.into()),
            None => self.check_snapshots(mode, Inspector::new(packs, &faults), &mut report).await,
        };
        if let Err(error) = ended {
            warn!(
                error = &error as &dyn std::error::Error,
                "a check of the snapshots has stopped before its end"
            );
            report.is_complete = false;
        }
        if !report.is_ok() {
            // The caller may have left.
            let CheckReport { faulty_packs, damaged_snapshots, unverified_snapshots, .. } = report;
            warn!(
                faulty_packs,
                damaged_snapshots, unverified_snapshots, "a check of the snapshots has found faults"
            );
        }
        Ok(report)
    }

    /// Finds the snapshots that have lost chunks.
    async fn check_snapshots(
        &self,
        mode: CheckMode,
        mut inspector: Inspector<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut failures = 0;
        for record in self.store.all_snapshots().await? {
            // While it is pinned, a collection keeps its chunks.
            let (record, _pin) = match self.pinned(&record.id).await {
                Ok(pinned) => pinned,
                Err(Error::Refused(Refusal::NotFound(_))) => continue,
                Err(error) => return Err(error),
            };
            let condition = match inspector.inspect(&record).await {
                Ok(condition) => {
                    failures = 0;
                    condition
                }
                Err(error) if failures == limits::MAX_CHECK_FAILURES => return Err(error),
                Err(error) => {
                    failures += 1;
                    warn!(snapshot = %record.id, error = &error as &dyn std::error::Error, "a snapshot could not be checked");
                    Condition::Unverified
                }
            };
            report.add(&record, condition);
            if mode == CheckMode::Repair {
                self.note_damage(&record, condition).await?;
            }
        }
        Ok(())
    }

    /// Records whether a snapshot is damaged. The next one of its sandbox does not build on a damaged one, so it stores
    /// again what is lost.
    async fn note_damage(&self, record: &SnapshotRecord, condition: Condition) -> Result<(), Error> {
        let state = match (record.state, condition) {
            (SnapshotState::Complete, Condition::Damaged) => SnapshotState::Damaged,
            (SnapshotState::Damaged, Condition::Whole) => SnapshotState::Complete,
            (SnapshotState::Complete | SnapshotState::Damaged | SnapshotState::PendingUpload, _) => {
                return Ok(());
            }
        };
        Ok(self.store.set_snapshot_state(&record.id, state).await?)
    }
}
