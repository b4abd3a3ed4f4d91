//! Rows of the table `snapshots`.

use sandboxd_model::{RestoreRecord, SnapshotRecord, SnapshotState};

use super::owner::{owner, project_column, subject_column};
use super::{BadColumn, number, row, saturated};

row! {
    /// A snapshot.
    SnapshotRow {
        id: String,
        sandbox_id: String,
        project: String,
        subject: String,
        session_key: Option<String>,
        name: Option<String>,
        created_at_ms: i64,
        expires_at_ms: Option<i64>,
        root: Vec<u8>,
        parent: Option<String>,
        size_bytes: i64,
        new_bytes: i64,
        files: i64,
        state: String,
        automatic: i64,
        command_id: Option<String>,
        kept_values: Option<Vec<u8>>,
    }
}

row! {
    /// A restore that has begun.
    RestoreRow {
        sandbox_id: String,
        snapshot_id: String,
        checkpoint_id: String,
    }
}

impl From<&RestoreRecord> for RestoreRow {
    fn from(record: &RestoreRecord) -> Self {
        Self {
            sandbox_id: record.sandbox.to_string(),
            snapshot_id: record.snapshot.to_string(),
            checkpoint_id: record.checkpoint.to_string(),
        }
    }
}

impl RestoreRow {
    pub(crate) fn record(self) -> Result<RestoreRecord, BadColumn> {
        Ok(RestoreRecord {
            sandbox: self.sandbox_id.parse().map_err(|_| BadColumn("sandbox_id"))?,
            snapshot: self.snapshot_id.parse().map_err(|_| BadColumn("snapshot_id"))?,
            checkpoint: self.checkpoint_id.parse().map_err(|_| BadColumn("checkpoint_id"))?,
        })
    }
}

impl From<&SnapshotRecord> for SnapshotRow {
    fn from(record: &SnapshotRecord) -> Self {
        Self {
            id: record.id.to_string(),
            sandbox_id: record.sandbox.to_string(),
            project: project_column(&record.owner),
            subject: subject_column(&record.owner),
            session_key: record.session_key.as_ref().map(|key| key.as_str().to_owned()),
            name: record.name.clone(),
            created_at_ms: record.created_at_ms,
            expires_at_ms: record.expires_at_ms,
            root: record.root.clone(),
            parent: record.parent.as_ref().map(ToString::to_string),
            size_bytes: saturated(record.size_bytes),
            new_bytes: saturated(record.new_bytes),
            files: saturated(record.files),
            state: record.state.as_str().to_owned(),
            automatic: record.automatic.into(),
            command_id: record.command.as_ref().map(ToString::to_string),
            kept_values: record.values.clone(),
        }
    }
}

impl SnapshotRow {
    pub(crate) fn record(self) -> Result<SnapshotRecord, BadColumn> {
        let session_key = self.session_key.map(|key| key.parse().map_err(|_| BadColumn("session_key")));
        let parent = self.parent.map(|id| id.parse().map_err(|_| BadColumn("parent")));
        let command = self.command_id.map(|id| id.parse().map_err(|_| BadColumn("command_id")));
        Ok(SnapshotRecord {
            id: self.id.parse().map_err(|_| BadColumn("id"))?,
            sandbox: self.sandbox_id.parse().map_err(|_| BadColumn("sandbox_id"))?,
            owner: owner(&self.project, &self.subject)?,
            session_key: session_key.transpose()?,
            name: self.name,
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms,
            root: self.root,
            values: self.kept_values,
            parent: parent.transpose()?,
            size_bytes: number("size_bytes", self.size_bytes)?,
            new_bytes: number("new_bytes", self.new_bytes)?,
            files: number("files", self.files)?,
            state: SnapshotState::parse(&self.state).ok_or(BadColumn("state"))?,
            automatic: self.automatic != 0,
            command: command.transpose()?,
        })
    }
}
