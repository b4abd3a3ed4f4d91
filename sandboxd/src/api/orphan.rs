//! Handlers for workspaces and disks on the engine that belong to no sandbox.

use axum::extract::Path;
use jiff::Timestamp;
use sandbox_api::Done;
use sandbox_api::orphan::{Orphan, OrphanList};

use super::body::Json;
use super::caller::Operator;
use super::error::Result;
use super::openapi::answers::ByName;
use crate::service::OrphanView;

/// List orphans.
///
/// Returns workspaces and disks on the engine that belong to no sandbox, as of the last check. Each is removed after
/// the grace period `SANDBOXD_ORPHAN_GRACE_MS`, unless that would remove most of what is on the engine.
#[utoipa::path(get, path = "/v1/orphans", operation_id = "listOrphans", tag = "daemon",
    responses((status = 200, body = OrphanList)))]
pub(super) async fn list(Operator(access, proof): Operator) -> Result<Json<OrphanList>> {
    let orphans = access.sandboxes().orphans(&proof)?.into_iter().map(to_wire).collect();
    Ok(Json(OrphanList { orphans }))
}

/// Remove an orphan.
///
/// Removes it with its files at once, without waiting for the grace period.
#[utoipa::path(delete, path = "/v1/orphans/{name}", operation_id = "removeOrphan", tag = "daemon",
    params(("name" = String, Path, description = "Name from the list of orphans.")),
    responses((status = 200, body = Done), ByName))]
pub(super) async fn remove(
    Operator(access, proof): Operator,
    Path(name): Path<String>,
) -> Result<Json<Done>> {
    access.sandboxes().remove_orphan(&name, &proof).await?;
    Ok(Json(Done::OK))
}

fn to_wire(OrphanView { orphan, grace_left, held }: OrphanView) -> Orphan {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let left = i64::try_from(grace_left.as_millis()).unwrap_or(i64::MAX);
    let removed_after = Timestamp::now().as_millisecond().saturating_add(left);
    Orphan {
        kind: orphan.kind.as_str().to_owned(),
        name: orphan.name,
        seen_at: at(orphan.seen_at_ms),
        removed_after: (!held).then(|| at(removed_after)),
    }
}
