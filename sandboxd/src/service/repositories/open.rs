//! Sandboxes with the files of a repository.

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::sandbox::Resources as WireResources;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::{Repositories, RepositoryRequest};
use crate::model::repository::{
    Repository, RepositoryKey, RepositoryRecord, RepositoryWarning, SANDBOX_KEYS,
};
use crate::model::{
    FieldError, NetworkMode, NetworkPolicy, Owner, Refusal, Resource, Resources, SandboxSpec,
};
use crate::model::{SessionKey, sandbox};
use crate::service::clock::now_ms;
use crate::service::lifecycle::{Changes, Reconnected};
use crate::service::{Authorized, Error, RepositoryError, SnapshotError};

const MIB: u64 = 1024 * 1024;

/// Space of a sandbox besides the files of its repository, in MiB.
const ROOM_MB: u64 = 256;

/// A sandbox with the files of a repository.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The sandbox.
    pub sandbox: Reconnected,
    /// Its files.
    pub files: RepositoryFiles,
}

/// The files of a repository.
#[derive(Debug, Clone)]
pub struct RepositoryFiles {
    /// The repository.
    pub repository: Repository,
    /// What is missing in the files.
    pub warnings: Vec<RepositoryWarning>,
    /// Whether they were kept, so that nothing was fetched.
    pub is_cached: bool,
}

/// A repository whose files are kept.
struct Ready {
    repository: Repository,
    record: RepositoryRecord,
    is_cached: bool,
}

impl Ready {
    /// A repository with its record. The record knows the commit, where the look-up may have found a tag.
    fn new(repository: Repository, (record, is_cached): (RepositoryRecord, bool)) -> Self {
        let repository = Repository { key: record.key.clone(), ..repository };
        Self { repository, record, is_cached }
    }
}

impl Repositories {
    /// The sandbox in which commands of an owner and of a session run that read a repository. It is created if needed, and
    /// deleted when it is idle.
    pub async fn open(
        self: &Arc<Self>,
        owner: &Owner,
        session: Option<&SessionKey>,
        request: &RepositoryRequest,
        idle_ttl: Duration,
    ) -> Result<Opened, Error> {
        let ready = self.ready(owner, request).await?;
        let disk_mb = ready.record.size_bytes / MIB + ROOM_MB;
        let spec = SandboxSpec {
            owner: owner.clone(),
            network: NetworkPolicy { mode: NetworkMode::None, allow: Vec::new() },
            resources: with_disk(disk_mb)?,
            idle_ttl,
            ..SandboxSpec::new(session_key(&ready.repository.key, session)?)
        };
        self.create_from(spec, &Changes::default(), ready).await
    }

    /// Returns the sandbox of a session, like [`crate::service::Lifecycle::create_or_reconnect`]. A new one has the files of
    /// the repository, which are returned too. An existing one keeps its own, and nothing is looked up for it.
    pub async fn create(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
        request: &RepositoryRequest,
    ) -> Result<(Reconnected, Option<RepositoryFiles>), Error> {
        if self.lifecycle.has_session(&spec.owner, &spec.session_key) {
            // If it is deleted meanwhile, this fails, so that no sandbox without the files is created.
            let none = Err(Refusal::NotFound(Resource::Sandbox).into());
            return Ok((self.snapshots.create(spec, changes, none).await?, None));
        }
        let ready = self.ready(&spec.owner, request).await?;
        let Opened { sandbox, files } = self.create_from(spec, changes, ready).await?;
        let files = sandbox.created.then_some(files);
        Ok((sandbox, files))
    }

    async fn create_from(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
        ready: Ready,
    ) -> Result<Opened, Error> {
        let Ready { repository, mut record, mut is_cached } = ready;
        let files = |record: RepositoryRecord, is_cached| {
            let warnings = record.warnings;
            RepositoryFiles { repository: repository.clone(), warnings, is_cached }
        };
        if let Some(sandbox) = self.existing(&spec, changes).await? {
            return Ok(Opened { sandbox, files: files(record, is_cached) });
        }
        let snapshot = |record: &RepositoryRecord| Ok(Authorized::new(record.snapshot.clone()));
        let mut created = self.snapshots.create(spec.clone(), changes, snapshot(&record)).await;
        if created.as_ref().is_err_and(is_unusable) {
            // It made room for others in between, or is damaged.
            self.forget(&record).await;
            (record, is_cached) = self.kept_or_fetched(&spec.owner, &repository.key).await?;
            created = self.snapshots.create(spec, changes, snapshot(&record)).await;
        }
        Ok(Opened { sandbox: created?, files: files(record, is_cached) })
    }

    /// The sandbox of a session that has one. Its files need no snapshot, and to look at one takes as long as a command.
    async fn existing(&self, spec: &SandboxSpec, changes: &Changes) -> Result<Option<Reconnected>, Error> {
        if !self.lifecycle.has_session(&spec.owner, &spec.session_key) {
            return Ok(None);
        }
        let none = Err(Refusal::NotFound(Resource::Sandbox).into());
        match self.snapshots.create(spec.clone(), changes, none).await {
            // It was deleted meanwhile.
            Err(error) if is_without_sandbox(&error) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Finds the commit of a request, and fetches it unless it is kept.
    async fn ready(self: &Arc<Self>, owner: &Owner, request: &RepositoryRequest) -> Result<Ready, Error> {
        if self.settings.kept_bytes == 0 {
            return Err(RepositoryError::Off.into());
        }
        let repository = self.resolve(owner, request).await?;
        match self.kept_or_fetched(owner, &repository.key).await {
            Ok(found) => Ok(Ready::new(repository, found)),
            Err(error) if is_without_commit(&error) => {
                let Some(repository) = self.resolve_again(owner, request, &repository).await? else {
                    return Err(error);
                };
                let found = self.kept_or_fetched(owner, &repository.key).await?;
                Ok(Ready::new(repository, found))
            }
            Err(error) => Err(error),
        }
    }

    async fn kept_or_fetched(
        self: &Arc<Self>,
        owner: &Owner,
        key: &RepositoryKey,
    ) -> Result<(RepositoryRecord, bool), Error> {
        if let Some(kept) = self.kept.take(key, now_ms()) {
            if kept.is_due
                && let Err(error) = self.store.put_repository(&kept.record).await
            {
                // It would only make room earlier.
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not write when a repository was last used"
                );
            }
            return Ok((kept.record, true));
        }
        Ok((self.fetched(owner, key).await?, false))
    }
}

fn session_key(key: &RepositoryKey, session: Option<&SessionKey>) -> Result<SessionKey, Error> {
    let RepositoryKey { origin, commit, with_token } = key;
    // No session key is empty, and none has a line feed.
    let session = session.map(SessionKey::as_str).unwrap_or_default();
    let digest = Sha256::digest(format!("{origin}\n{commit}\n{with_token}\n{session}"));
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("{SANDBOX_KEYS}{digits}").parse().map_err(FieldError::from);
    key.map_err(|error| Error::Refused(error.into()))
}

/// The default size, with a disk of at least so many MiB.
pub(super) fn with_disk(disk_mb: u64) -> Result<Resources, Error> {
    let (first, last) = (u64::from(Resources::default().disk_mb()), *sandbox::DISK_MB.end());
    let wire = WireResources { disk_mb: Some(disk_mb.clamp(first, last)), ..WireResources::default() };
    Resources::new(wire).map_err(|error| Error::Refused(error.into()))
}

/// Whether the snapshot of a repository is gone or damaged.
fn is_unusable(error: &Error) -> bool {
    match error {
        Error::Refused(Refusal::NotFound(Resource::Snapshot))
        | Error::Snapshot(SnapshotError::Damaged { .. }) => true,
        Error::CreateFailed(error) => is_unusable(error),
        _ => false,
    }
}

/// Whether there is no sandbox, or no longer.
fn is_without_sandbox(error: &Error) -> bool {
    match error {
        Error::Refused(Refusal::NotFound(Resource::Sandbox)) => true,
        Error::CreateFailed(error) => is_without_sandbox(error),
        _ => false,
    }
}

/// Whether the repository does not have the commit, or the directory has other files by now.
fn is_without_commit(error: &Error) -> bool {
    match error {
        Error::Repository(RepositoryError::NoRef { .. } | RepositoryError::Changed) => true,
        Error::FetchFailed(error) => is_without_commit(error),
        _ => false,
    }
}
