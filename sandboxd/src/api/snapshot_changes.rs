//! What differs between snapshots: `GET /v1/snapshots/{snapshotId}/changes`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sandbox_api::snapshot::{ChangeKind, DiffOmitted, SnapshotChange, SnapshotChanges};

use super::body::Json;
use super::caller::Reader;
use super::error::Result;
use super::openapi::InSnapshot;
use super::openapi::answers::*;
use super::params::{self, Params, Path};
use super::snapshot::{bad_cursor, limit_of};
use crate::model::FieldError;
use crate::service::{self, ChangeOptions, Diff, FileChange, Omitted};

/// Compare snapshots.
///
/// Returns what differs in this snapshot from the snapshot `from`, or from an empty one. Differences only in times are
/// skipped. With `diff`, each file of the workspace has a patch, unless it is not text or is too large, which
/// `diffOmitted` says. The patches together can be applied in the workspace with `git apply` or `patch -p1`. A page with
/// patches may have fewer changes.
#[utoipa::path(get, path = "/v1/snapshots/{snapshotId}/changes", operation_id = "compareSnapshots",
    tag = "snapshots",
    params(InSnapshot,
        ("from" = Option<String>, Query, description = "Id of the earlier snapshot."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number, default 100."),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page."),
        ("diff" = Option<bool>, Query, description = "Returns how the texts of files differ.")),
    responses((status = 200, body = SnapshotChanges), ByName, ByQuery, BySandbox))]
pub(super) async fn changes(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<SnapshotChanges>> {
    let options = ChangeOptions {
        after: query.get("cursor").map(|cursor| path_cursor_of(cursor)).transpose()?,
        limit: limit_of(&query)? as usize,
        diff: params::optional(&query, "diff", "`true` or `false`")?.unwrap_or(false),
    };
    let from = match query.get("from") {
        Some(from) => Some(access.snapshot(params::snapshot(from)?).await?),
        None => None,
    };
    let to = access.snapshot(params::snapshot(&id)?).await?;
    let page = access.snapshots().changes(from.as_ref(), &to, &options).await?;
    Ok(Json(SnapshotChanges {
        changes: page.changes.into_iter().map(to_wire).collect(),
        next_cursor: page.next_after.map(|path| URL_SAFE_NO_PAD.encode(path)),
    }))
}

fn path_cursor_of(text: &str) -> std::result::Result<Vec<u8>, FieldError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| bad_cursor())
}

fn to_wire(change: FileChange) -> SnapshotChange {
    let text = |path: Vec<u8>| String::from_utf8_lossy(&path).into_owned();
    let kind = match change.kind {
        service::ChangeKind::Added => ChangeKind::Added,
        service::ChangeKind::Modified => ChangeKind::Modified,
        service::ChangeKind::Deleted => ChangeKind::Deleted,
        service::ChangeKind::Renamed => ChangeKind::Renamed,
    };
    let (diff, diff_base64, diff_omitted) = match change.diff {
        None => (None, None, None),
        Some(Diff::Omitted(omitted)) => (None, None, Some(omitted_to_wire(omitted))),
        Some(Diff::Patch(patch)) => match String::from_utf8(patch) {
            Ok(patch) => (Some(patch), None, None),
            Err(invalid) => {
                let bytes = invalid.as_bytes();
                (Some(text(bytes.to_vec())), Some(STANDARD.encode(bytes)), None)
            }
        },
    };
    let (path, from) = (text(change.path), change.from.map(text));
    SnapshotChange { path, change: kind, from, diff, diff_base64, diff_omitted }
}

fn omitted_to_wire(omitted: Omitted) -> DiffOmitted {
    match omitted {
        Omitted::Binary => DiffOmitted::Binary,
        Omitted::TooLarge => DiffOmitted::TooLarge,
        Omitted::Special => DiffOmitted::Special,
        Omitted::Metadata => DiffOmitted::Metadata,
        Omitted::Outside => DiffOmitted::Outside,
        Omitted::Git => DiffOmitted::Git,
    }
}
