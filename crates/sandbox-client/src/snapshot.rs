//! Snapshots.

use http::Method;
use sandbox_api::snapshot::{
    CheckSnapshots, ForkSandbox, MakeSnapshot, RestoreSnapshot, SandboxForked, Snapshot, SnapshotChanges,
    SnapshotList, SnapshotMade, SnapshotRestored, SnapshotsChecked,
};
use sandbox_api::{Done, SandboxId, SnapshotId};

use crate::deadlines::{ACT, LOOK, UNLIMITED};
use crate::files::FileContent;
use crate::request::{json, send};
use crate::{Body, Client, Error};

/// How a file becomes a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions<'a> {
    /// Display name. `None` is the name in the file.
    pub name: Option<&'a str>,
    /// Time in milliseconds after which the snapshot is deleted. `None` is never.
    pub ttl_ms: Option<u64>,
}

/// Number of changes in a response: the maximum. Each page begins a comparison again.
const CHANGES_AT_A_TIME: &str = "1000";

impl Client {
    /// Makes a snapshot of a sandbox. Has no deadline, because files may be large. Not safe to repeat: each call makes one.
    pub async fn make_snapshot(
        &self,
        sandbox: &SandboxId,
        body: &MakeSnapshot,
    ) -> Result<SnapshotMade, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/snapshots"), body), UNLIMITED).await
    }

    /// Lists the snapshots of a sandbox, newest first. `cursor` is the `next_cursor` of the previous page.
    pub async fn snapshots(&self, sandbox: &SandboxId, cursor: Option<&str>) -> Result<SnapshotList, Error> {
        self.snapshots_at(&format!("/v1/sandboxes/{sandbox}/snapshots"), cursor).await
    }

    /// Lists all snapshots of the daemon, newest first: also those that were imported, and those of deleted sandboxes.
    /// `cursor` is the `next_cursor` of the previous page.
    pub async fn all_snapshots(&self, cursor: Option<&str>) -> Result<SnapshotList, Error> {
        self.snapshots_at("/v1/snapshots", cursor).await
    }

    async fn snapshots_at(&self, path: &str, cursor: Option<&str>) -> Result<SnapshotList, Error> {
        let query: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
        json(self.request(Method::GET, path).query(&query), LOOK).await
    }

    /// Returns a snapshot.
    pub async fn snapshot(&self, snapshot: &SnapshotId) -> Result<Snapshot, Error> {
        json(self.request(Method::GET, &format!("/v1/snapshots/{snapshot}")), LOOK).await
    }

    /// Deletes a snapshot.
    pub async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &format!("/v1/snapshots/{snapshot}"));
        json::<Done>(request, ACT).await.map(drop)
    }

    /// Returns what differs in a snapshot from the snapshot `from`, or from an empty one.
    pub async fn compare_snapshots(
        &self,
        from: Option<&SnapshotId>,
        snapshot: &SnapshotId,
        cursor: Option<&str>,
    ) -> Result<SnapshotChanges, Error> {
        self.changes(from, snapshot, cursor, false).await
    }

    /// Like [`Self::compare_snapshots`], with patches of the texts in the workspace. A page may have few changes.
    pub async fn diff_snapshots(
        &self,
        from: Option<&SnapshotId>,
        snapshot: &SnapshotId,
        cursor: Option<&str>,
    ) -> Result<SnapshotChanges, Error> {
        self.changes(from, snapshot, cursor, true).await
    }

    async fn changes(
        &self,
        from: Option<&SnapshotId>,
        snapshot: &SnapshotId,
        cursor: Option<&str>,
        diff: bool,
    ) -> Result<SnapshotChanges, Error> {
        let from = from.map(|from| ("from", from.to_string()));
        let cursor = cursor.map(|cursor| ("cursor", cursor.to_owned()));
        let diff = diff.then(|| ("diff", "true".to_owned()));
        let limit = Some(("limit", CHANGES_AT_A_TIME.to_owned()));
        let query: Vec<_> = from.into_iter().chain(cursor).chain(diff).chain(limit).collect();
        let request = self.request(Method::GET, &format!("/v1/snapshots/{snapshot}/changes"));
        json(request.query(&query), ACT).await
    }

    /// Exports a snapshot as one file. Has no deadline. A file that breaks off is an error, never an early end.
    pub async fn export_snapshot(&self, snapshot: &SnapshotId) -> Result<FileContent, Error> {
        let request = self.request(Method::GET, &format!("/v1/snapshots/{snapshot}:export"));
        Ok(FileContent::new(send(request, UNLIMITED).await?))
    }

    /// Makes a snapshot of a file that was exported. Has no deadline: the daemon ends an upload that stalls for a minute.
    /// Not safe to repeat: each call makes one.
    pub async fn import_snapshot(
        &self,
        file: impl Into<Body>,
        options: &ImportOptions<'_>,
    ) -> Result<Snapshot, Error> {
        let name = options.name.map(|name| ("name", name.to_owned()));
        let ttl = options.ttl_ms.map(|ttl_ms| ("ttlMs", ttl_ms.to_string()));
        let query: Vec<_> = name.into_iter().chain(ttl).collect();
        let request = self.request(Method::POST, "/v1/snapshots:import");
        json(request.query(&query).body(file), UNLIMITED).await
    }

    /// Reads and verifies all chunks of all snapshots. Has no deadline. Safe to repeat.
    pub async fn check_snapshots(&self, body: &CheckSnapshots) -> Result<SnapshotsChecked, Error> {
        json(self.post("/v1/snapshots:check", body), UNLIMITED).await
    }

    /// Turns the files of a sandbox into those of a snapshot. Has no deadline. Safe to repeat.
    pub async fn restore_snapshot(
        &self,
        sandbox: &SandboxId,
        body: &RestoreSnapshot,
    ) -> Result<SnapshotRestored, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}:restore"), body), UNLIMITED).await
    }

    /// Creates sandboxes with the files of another one. Has no deadline. Not safe to repeat: the sessions have sandboxes
    /// then.
    pub async fn fork(&self, sandbox: &SandboxId, body: &ForkSandbox) -> Result<SandboxForked, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}:fork"), body), UNLIMITED).await
    }
}
