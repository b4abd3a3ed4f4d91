//! Handlers for snapshots.

use std::time::Duration;

use sandbox_api::Done;
use sandbox_api::sandbox::{SandboxCreated, SandboxState};
use sandbox_api::snapshot::{
    self, ForkSandbox, MakeSnapshot, RestoreSnapshot, SandboxForked, Snapshot, SnapshotList, SnapshotMade,
    SnapshotRestored,
};

use super::body::Json;
use super::caller::{Reader, User};
use super::denial::time;
use super::error::Result;
use super::openapi::answers::*;
use super::openapi::{InSandbox, InSnapshot};
use super::params::{self, Params, Path};
use crate::model::field::checked;
use crate::model::sandbox::session_key;
use crate::model::snapshot::is_name;
use crate::model::{FieldError, SnapshotCursor, SnapshotRecord, SnapshotState, limits};
use crate::service::{self, NewSnapshot, SnapshotOptions};

/// Make a snapshot.
///
/// Stores the sandbox's files while it runs: the workspace, what is installed in its home, and the output files of
/// commands, without temporary files and processes. Also stores its values. Files keep their modes, times, links, holes and extended attributes.
/// What an earlier snapshot has already takes no space again. A file that is being written may be caught in the middle;
/// `torn` lists those that changed each time they were read. Wakes a parked sandbox. The snapshot outlives the sandbox.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/snapshots", operation_id = "makeSnapshot", tag = "snapshots",
    params(InSandbox), request_body = MakeSnapshot,
    responses((status = 200, body = SnapshotMade), ByName, ByBody, BySandbox))]
pub(super) async fn make(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<MakeSnapshot>,
) -> Result<Json<SnapshotMade>> {
    let options = SnapshotOptions {
        name: request.name.map(name_of).transpose()?,
        ttl: request.ttl_ms.map(ttl_of).transpose()?,
        pause: request.pause.unwrap_or(false),
    };
    let made = access.snapshots().make(&access.sandbox(params::sandbox(&id)?)?, options).await?;
    access.found("snapshotId", &made.record.id);
    let NewSnapshot { record, torn, torn_files, paused } = made;
    Ok(Json(SnapshotMade { snapshot: to_wire(record), torn, torn_files, paused }))
}

/// List snapshots of a sandbox.
///
/// Returns the snapshots of a sandbox, newest first, also after the sandbox is deleted.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/snapshots", operation_id = "listSnapshots", tag = "snapshots",
    params(InSandbox,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = SnapshotList), ByName, ByQuery))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<SnapshotList>> {
    let page = Page::of(&query)?;
    let id = params::sandbox(&id)?;
    if !access.reaches(&id) {
        return Ok(Json(page.answer(Vec::new())));
    }
    let records =
        access.snapshots().list(access.owner(), Some(&id), page.before.as_ref(), page.limit + 1).await?;
    Ok(Json(page.answer(records)))
}

/// List all snapshots.
///
/// Returns the snapshots of all sandboxes, newest first, also of those that are deleted, and the snapshots that were
/// imported. A snapshot that `POST /v1/snapshots:check` has found damaged has the state `damaged`.
#[utoipa::path(get, path = "/v1/snapshots", operation_id = "listAllSnapshots", tag = "snapshots",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page.")),
    responses((status = 200, body = SnapshotList), ByQuery))]
pub(super) async fn list_all(Reader(access): Reader, query: Params) -> Result<Json<SnapshotList>> {
    let page = Page::of(&query)?;
    let of = access.only_sandbox();
    let records = access.snapshots().list(access.owner(), of, page.before.as_ref(), page.limit + 1).await?;
    Ok(Json(page.answer(records)))
}

/// Inspect a snapshot.
///
/// Returns when it was made, its size, and what it is a snapshot of.
#[utoipa::path(get, path = "/v1/snapshots/{snapshotId}", operation_id = "getSnapshot", tag = "snapshots",
    params(InSnapshot), responses((status = 200, body = Snapshot), ByName))]
pub(super) async fn get(Reader(access): Reader, Path(id): Path<String>) -> Result<Json<Snapshot>> {
    Ok(Json(to_wire(access.snapshots().get(&access.snapshot(params::snapshot(&id)?).await?).await?)))
}

/// Delete a snapshot.
///
/// Space that no other snapshot needs is freed within about an hour. Rejected while the snapshot is being restored, or
/// another one is made after it.
#[utoipa::path(delete, path = "/v1/snapshots/{snapshotId}", operation_id = "deleteSnapshot", tag = "snapshots",
    params(InSnapshot), responses((status = 200, body = Done), ByName, ByState))]
pub(super) async fn delete(User(access): User, Path(id): Path<String>) -> Result<Json<Done>> {
    access.snapshots().delete(&access.snapshot(params::snapshot(&id)?).await?).await?;
    Ok(Json(Done::OK))
}

/// Restore a snapshot.
///
/// Turns the sandbox's files and values into those of the snapshot, in place. Only what differs is written. A snapshot of
/// the present files and values is made first: `checkpointId`. Rejected while a command or a program on a terminal runs,
/// unless `force` is set, which ends what runs. If the disk has too little space, nothing is changed. Requests to the
/// sandbox wait meanwhile. A restore that is interrupted is finished or undone before the next request is served.
#[utoipa::path(post, path = "/v1/sandboxes/{id}:restore", operation_id = "restoreSnapshot", tag = "snapshots",
    params(InSandbox), request_body = RestoreSnapshot,
    responses((status = 200, body = SnapshotRestored), ByName, ByBody, BySandbox))]
pub(super) async fn restore(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<RestoreSnapshot>,
) -> Result<Json<SnapshotRestored>> {
    let force = request.force.unwrap_or(false);
    let snapshots = access.snapshots();
    let id = access.sandbox(params::sandbox(&id)?)?;
    access.found("snapshotId", &request.snapshot_id);
    let snapshot = access.snapshot(request.snapshot_id).await?;
    let done = snapshots.restore(&id, &snapshot, force).await?;
    Ok(Json(SnapshotRestored {
        checkpoint_id: done.checkpoint,
        written: done.restored.written,
        removed: done.restored.removed,
    }))
}

/// Fork a sandbox.
///
/// Creates a sandbox for each session key, with the files that this sandbox has now and its configuration, but without
/// the values of its environment and without processes. All of them are created, or none.
#[utoipa::path(post, path = "/v1/sandboxes/{id}:fork", operation_id = "forkSandbox", tag = "snapshots",
    params(InSandbox), request_body = ForkSandbox,
    responses((status = 200, body = SandboxForked), ByName, ByBody, BySandbox))]
pub(super) async fn fork(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<ForkSandbox>,
) -> Result<Json<SandboxForked>> {
    checked("sessionKeys", request.session_keys.len() as u64, 1..=limits::MAX_FORKS as u64)?;
    let sessions = request.session_keys.iter().map(|key| session_key(key));
    let sessions = sessions.collect::<std::result::Result<Vec<_>, FieldError>>()?;
    let forked = access.snapshots().fork(&access.sandbox(params::sandbox(&id)?)?, sessions).await?;
    access.found("sandboxIds", forked.iter().map(|fork| &fork.id).collect::<Vec<_>>());
    let sandboxes = forked.into_iter().map(|fork: service::Reconnected| SandboxCreated {
        sandbox_id: fork.id,
        created: fork.created,
        state: SandboxState::Running,
        woken: fork.woken,
        ignored: Vec::new(),
        image_id: fork.image_id,
        repository: None,
    });
    Ok(Json(SandboxForked { sandboxes: sandboxes.collect() }))
}

pub(super) fn name_of(name: String) -> std::result::Result<String, FieldError> {
    match is_name(&name) {
        true => Ok(name),
        false => {
            Err(FieldError::new("name", "must have 1 to 200 characters, none of them a control character"))
        }
    }
}

pub(super) fn ttl_of(ms: u64) -> std::result::Result<Duration, FieldError> {
    Ok(Duration::from_millis(checked("ttlMs", ms, limits::SNAPSHOT_TTL_MS)?))
}

/// The page of a list that a request asks for.
struct Page {
    limit: u32,
    before: Option<SnapshotCursor>,
}

impl Page {
    fn of(query: &Params) -> Result<Self> {
        let before = query.get("cursor").map(|cursor| cursor_of(cursor)).transpose()?;
        Ok(Self { limit: limit_of(query)?, before })
    }

    /// The page with the first of these records. If there is one more, there is a next page.
    fn answer(&self, mut records: Vec<SnapshotRecord>) -> SnapshotList {
        let has_more = records.len() > self.limit as usize;
        records.truncate(self.limit as usize);
        let next_cursor = records.last().filter(|_| has_more).map(|last| cursor_text(&last.cursor()));
        SnapshotList { snapshots: records.into_iter().map(to_wire).collect(), next_cursor }
    }
}

pub(super) fn limit_of(query: &Params) -> Result<u32> {
    let limit = params::optional(query, "limit", "a number")?.unwrap_or(limits::DEFAULT_SNAPSHOT_PAGE);
    Ok(checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_SNAPSHOT_PAGE))? as u32)
}

/// The position of the last snapshot of a page: its time and its id.
fn cursor_text(cursor: &SnapshotCursor) -> String {
    format!("{}-{}", cursor.created_at_ms, cursor.id)
}

fn cursor_of(text: &str) -> std::result::Result<SnapshotCursor, FieldError> {
    let parsed = text.split_once('-').and_then(|(created_at_ms, id)| {
        Some(SnapshotCursor { created_at_ms: created_at_ms.parse().ok()?, id: id.parse().ok()? })
    });
    parsed.ok_or_else(bad_cursor)
}

pub(super) fn bad_cursor() -> FieldError {
    FieldError::new("cursor", "must be the `nextCursor` of the previous page")
}

pub(super) fn to_wire(record: SnapshotRecord) -> Snapshot {
    Snapshot {
        snapshot_id: record.id,
        sandbox_id: record.sandbox,
        session_key: record.session_key.map(|key| key.to_string()),
        name: record.name,
        created_at: time(record.created_at_ms),
        expires_at: record.expires_at_ms.map(time),
        parent_id: record.parent,
        size_bytes: record.size_bytes,
        new_bytes: record.new_bytes,
        files: record.files,
        state: state_to_wire(record.state),
        automatic: record.automatic,
        command_id: record.command,
    }
}

fn state_to_wire(state: SnapshotState) -> snapshot::SnapshotState {
    match state {
        // One whose upload is pending can be restored too.
        SnapshotState::Complete | SnapshotState::PendingUpload => snapshot::SnapshotState::Complete,
        SnapshotState::Damaged => snapshot::SnapshotState::Damaged,
    }
}
