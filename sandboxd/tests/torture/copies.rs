//! What a client does with its snapshots: new sandboxes, forks, files and deletes.

use sandbox_api::SandboxId;
use sandbox_api::sandbox::{Checkpoints, CreateSandbox, ListSandboxes, WorkspaceSource};
use sandbox_api::snapshot::ForkSandbox;
use sandbox_client::{Error, ImportOptions};

use crate::client::{ChatClient, first_of};
use crate::ledger::Contents;
use crate::tree::{self, TREE};

/// Largest file of a snapshot, in bytes.
const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

impl ChatClient {
    /// The session of copies. Each is deleted soon.
    fn copy_key(&self) -> String {
        format!("{}:copy", self.key)
    }

    /// Deletes a copy that an interrupted action has left.
    pub(crate) async fn remove_copy(&self) -> Result<(), Error> {
        let session = ListSandboxes { session_key: Some(self.copy_key()), ..ListSandboxes::default() };
        for copy in self.client.list(&session).await?.sandboxes {
            self.client.delete(&copy.sandbox_id).await?;
        }
        Ok(())
    }

    /// Picks one of the acknowledged snapshots.
    fn a_snapshot(&mut self) -> Option<usize> {
        match self.ledger.snapshots().len() as u64 {
            0 => None,
            count => Some(self.chance.below(count) as usize),
        }
    }

    /// Creates a sandbox with the files of a snapshot.
    pub(crate) async fn copy(&mut self) -> Result<(), Error> {
        let Some(at) = self.a_snapshot() else { return Ok(()) };
        self.remove_copy().await?;
        let (snapshot_id, contents) = self.ledger.snapshots()[at].clone();
        let request = CreateSandbox {
            session_key: self.copy_key(),
            workspace: Some(WorkspaceSource::snapshot(snapshot_id)),
            ..CreateSandbox::default()
        };
        let copy = self.client.create_or_reconnect(&request).await?.sandbox_id;
        self.compare("a copy", &copy, &contents).await
    }

    pub(crate) async fn fork(&mut self) -> Result<(), Error> {
        self.remove_copy().await?;
        let Some(contents) = self.present_files().await? else { return Ok(()) };
        let request = ForkSandbox { session_keys: vec![self.copy_key()] };
        let forked = self.client.fork(&self.sandbox(), &request).await?.sandboxes;
        let [fork] = &forked[..] else {
            self.complain(format!("a fork with one session has {} sandboxes", forked.len()));
            return Ok(());
        };
        let fork = fork.sandbox_id.clone();
        self.compare("a fork", &fork, &contents).await
    }

    async fn compare(&mut self, what: &str, copy: &SandboxId, contents: &Contents) -> Result<(), Error> {
        let (expected, found) = (without_holes(contents), without_holes(&self.files_of(copy).await?));
        if found != expected {
            self.complain(format!("{what} has other files: {}", first_of(&expected, &found)));
        }
        self.client.delete(copy).await.map(drop)
    }

    /// Imports a snapshot that was exported. Restores of it are checked like those of others.
    pub(crate) async fn export(&mut self) -> Result<(), Error> {
        let Some(at) = self.a_snapshot() else { return Ok(()) };
        let (snapshot_id, contents) = self.ledger.snapshots()[at].clone();
        let file = self.client.export_snapshot(&snapshot_id).await?.bytes(MAX_FILE_BYTES).await?;
        let imported = self.client.import_snapshot(file, &ImportOptions::default()).await?;
        self.ledger.snapshot_made(imported.snapshot_id, contents);
        Ok(())
    }

    /// Deletes a snapshot.
    pub(crate) async fn discard(&mut self) -> Result<(), Error> {
        let Some(at) = self.a_snapshot() else { return Ok(()) };
        let snapshot_id = self.ledger.discards(at);
        self.client.delete_snapshot(&snapshot_id).await
    }

    /// Turns the automatic snapshots after commands on, or off.
    pub(crate) async fn set_checkpoints(&mut self) -> Result<(), Error> {
        let checkpoints = Checkpoints {
            after_command: Some(self.chance.below(2) == 0),
            keep: Some(3),
            ..Checkpoints::default()
        };
        let request = CreateSandbox {
            session_key: self.key.clone(),
            checkpoints: Some(checkpoints),
            ..CreateSandbox::default()
        };
        let found = self.client.create_or_reconnect(&request).await?;
        if let Err(broken) = self.ledger.got(&found.sandbox_id, found.created) {
            self.complain(broken);
        }
        Ok(())
    }
}

/// A copy may have the files of the snapshot in a base.
fn without_holes(contents: &Contents) -> Contents {
    let described = |(path, content): (&String, &String)| {
        let content = if path == TREE { tree::without_holes(content) } else { content.clone() };
        (path.clone(), content)
    };
    contents.iter().map(described).collect()
}
