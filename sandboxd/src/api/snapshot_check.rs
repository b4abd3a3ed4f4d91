//! Checking the store of snapshots: `POST /v1/snapshots:check`.

use sandbox_api::snapshot::{CheckSnapshots, PackFault, PackProblem, SnapshotsChecked};

use super::body::Json;
use super::caller::Operator;
use super::error::Result;
use super::openapi::answers::*;
use super::snapshot::to_wire;
use crate::service::{self, CheckMode, CheckReport};

/// Check the store of snapshots.
///
/// Reads and verifies all chunks of all snapshots, which takes time and the processor. Damaged packs are moved to the
/// quarantine, their intact chunks are stored again, and nothing is deleted. The response lists the snapshots that have
/// lost chunks. The other snapshots can be restored. A later snapshot stores lost chunks again if its sandbox still has
/// them. What cannot be read is reported, and the check continues. If it has to stop, `incomplete` is true, and the
/// response has what was found until then. One check runs at a time.
#[utoipa::path(post, path = "/v1/snapshots:check", operation_id = "checkSnapshots", tag = "snapshots",
    request_body = CheckSnapshots, responses((status = 200, body = SnapshotsChecked), ByBody, BySandbox))]
pub(super) async fn check(
    Operator(access, proof): Operator,
    Json(request): Json<CheckSnapshots>,
) -> Result<Json<SnapshotsChecked>> {
    let mode = if request.read_only.unwrap_or(false) { CheckMode::ReadOnly } else { CheckMode::Repair };
    let report = access.snapshots().check(mode, &proof).await?;
    Ok(Json(report_to_wire(report)))
}

fn report_to_wire(report: CheckReport) -> SnapshotsChecked {
    SnapshotsChecked {
        ok: report.is_ok(),
        incomplete: !report.is_complete,
        packs: report.packs,
        chunks: report.chunks,
        bytes: report.bytes,
        faulty_packs: report.faulty_packs,
        faults: report.faults.into_iter().map(fault_to_wire).collect(),
        snapshots: report.snapshots,
        damaged_snapshots: report.damaged_snapshots,
        damaged: report.damaged.into_iter().map(to_wire).collect(),
        unverified_snapshots: report.unverified_snapshots,
    }
}

fn fault_to_wire(fault: service::PackFault) -> PackFault {
    let (problem, message) = match fault.problem {
        service::PackProblem::Pack { damage } => (PackProblem::Damaged, damage),
        service::PackProblem::Chunks => (PackProblem::Damaged, "some of its chunks are damaged".into()),
        service::PackProblem::Missing => (PackProblem::Missing, "it does not exist".into()),
        service::PackProblem::Unread => {
            (PackProblem::Unread, "it could not be read; the daemon's log has the reason".into())
        }
    };
    PackFault {
        pack: fault.pack,
        problem,
        message,
        damaged_chunks: fault.damaged_chunks,
        quarantined: fault.intact_chunks.is_some(),
        intact_chunks: fault.intact_chunks.unwrap_or(0),
    }
}
