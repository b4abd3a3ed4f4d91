//! The manifests of snapshots: objects beside the packs, from which the records in the database can be restored.
//!
//! A snapshot exists if its manifest exists. The database may be lost, or older than the snapshots.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt;
use sandbox_api::{CommandId, SandboxId, SnapshotId};
use serde::{Deserialize, Serialize};

use crate::model::{Owner, SessionKey, SnapshotRecord, SnapshotState};
use crate::packs::Packs;
use crate::service::{Error, SnapshotError};

/// Folder of the manifests in the object store.
const FOLDER: &str = "manifests";

/// Maximum size of a manifest in bytes. The root directory of a snapshot has three entries.
const MAX_BYTES: u64 = 64 * 1024;

/// A record as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    id: SnapshotId,
    sandbox: SandboxId,
    /// Absent in manifests from before there were projects.
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    session_key: Option<String>,
    name: Option<String>,
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
    /// The encoded content of the root directory, in base64.
    root: String,
    /// The encoded content of the values, in base64. Absent in manifests of older versions.
    #[serde(default)]
    values: Option<String>,
    parent: Option<SnapshotId>,
    size_bytes: u64,
    new_bytes: u64,
    files: u64,
    #[serde(default)]
    automatic: bool,
    #[serde(default)]
    command: Option<CommandId>,
}

fn path_of(id: &SnapshotId) -> String {
    format!("{FOLDER}/{id}")
}

/// Writes the manifest of a snapshot, whose chunks are stored.
pub(super) async fn put(packs: &Packs, record: &SnapshotRecord) -> Result<(), Error> {
    let manifest = Manifest {
        id: record.id.clone(),
        sandbox: record.sandbox.clone(),
        project: Some(record.owner.project.to_string()),
        subject: record.owner.subject.as_ref().map(ToString::to_string),
        session_key: record.session_key.as_ref().map(ToString::to_string),
        name: record.name.clone(),
        created_at_ms: record.created_at_ms,
        expires_at_ms: record.expires_at_ms,
        root: STANDARD.encode(&record.root),
        values: record.values.as_ref().map(|values| STANDARD.encode(values)),
        parent: record.parent.clone(),
        size_bytes: record.size_bytes,
        new_bytes: record.new_bytes,
        files: record.files,
        automatic: record.automatic,
        command: record.command.clone(),
    };
    let json = serde_json::to_vec(&manifest).map_err(damaged)?;
    Ok(packs.put_object(&path_of(&record.id), json.into()).await?)
}

/// Removes the manifest of a snapshot. Succeeds if there is none.
pub(super) async fn delete(packs: &Packs, id: &SnapshotId) -> Result<(), Error> {
    Ok(packs.delete_object(&path_of(id)).await?)
}

/// Lists the snapshots that have a manifest. A store that lists one again and again takes no memory for it.
pub(super) async fn list(packs: &Packs) -> Result<HashSet<SnapshotId>, Error> {
    let mut objects = packs.list_objects(FOLDER)?;
    let mut ids = HashSet::new();
    while let Some(object) = objects.try_next().await? {
        let id = object.path.rsplit('/').next().unwrap_or_default().parse();
        ids.insert(id.map_err(damaged)?);
    }
    Ok(ids)
}

/// Reads the manifest of a snapshot.
pub(super) async fn get(packs: &Packs, id: &SnapshotId) -> Result<SnapshotRecord, Error> {
    let json = packs.get_object(&path_of(id), MAX_BYTES).await?;
    let manifest: Manifest = serde_json::from_slice(&json).map_err(damaged)?;
    let owner = Owner {
        project: manifest
            .project
            .map(|project| project.parse())
            .transpose()
            .map_err(damaged)?
            .unwrap_or_default(),
        subject: manifest.subject.map(|subject| subject.parse()).transpose().map_err(damaged)?,
    };
    Ok(SnapshotRecord {
        id: manifest.id,
        sandbox: manifest.sandbox,
        owner,
        session_key: manifest
            .session_key
            .map(|key| key.parse::<SessionKey>())
            .transpose()
            .map_err(damaged)?,
        name: manifest.name,
        created_at_ms: manifest.created_at_ms,
        expires_at_ms: manifest.expires_at_ms,
        root: STANDARD.decode(manifest.root).map_err(damaged)?,
        values: manifest.values.map(|values| STANDARD.decode(values)).transpose().map_err(damaged)?,
        parent: manifest.parent,
        size_bytes: manifest.size_bytes,
        new_bytes: manifest.new_bytes,
        files: manifest.files,
        state: SnapshotState::Complete,
        automatic: manifest.automatic,
        command: manifest.command,
    })
}

fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Snapshot(SnapshotError::Damaged { source: Box::new(error) })
}
