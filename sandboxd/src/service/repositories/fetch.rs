//! Fetches one commit of a repository, in a sandbox that is removed afterwards.
//!
//! The sandbox belongs to the owner of the request, so it counts like any other. But it is tentative: no client can use it, or
//! change the files that others get. If the daemon is killed, the next start removes it.

use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::{CommandId, SandboxId};
use tokio::time::timeout;
use tracing::{info, warn};

use super::helper::Fetched;
use super::open::with_disk;
use super::resolve::fault;
use super::{Fetch, Repositories, own};
use crate::agent::AgentHandle;
use crate::model::repository::{RepositoryKey, RepositoryOrigin, RepositoryRecord, SANDBOX_KEYS};
use crate::model::{
    CommandSpec, FieldError, NetworkMode, NetworkPolicy, Owner, Refusal, Resource, SandboxSpec,
    SnapshotRecord, limits,
};
use crate::seam;
use crate::service::clock::now_ms;
use crate::service::lifecycle::{Beginning, Changes, InUseMark, Sandbox};
use crate::service::run_to_end::{Output, run_to_end};
use crate::service::{Error, RepositoryError};

/// Exit code of the script if the repository does not give the commit.
const NO_COMMIT: i32 = 3;

/// Copies of the files that a fetch needs space for: received, unpacked, and some room.
const COPIES: u64 = 3;

impl Repositories {
    /// Fetches a repository. Requests of the same project for the same one wait for the same fetch, which continues if they
    /// leave.
    pub(super) async fn fetched(
        self: &Arc<Self>,
        owner: &Owner,
        key: &RepositoryKey,
    ) -> Result<RepositoryRecord, Error> {
        let id = (owner.project.clone(), key.clone());
        let fetch = {
            let mut fetches = self.fetches();
            // It may have ended since the caller looked.
            if let Some(kept) = self.kept.take(key, now_ms()) {
                return Ok(kept.record);
            }
            fetches.entry(id.clone()).or_insert_with(|| self.begin(owner, id)).clone()
        };
        fetch.await.map_err(Error::FetchFailed)
    }

    fn begin(self: &Arc<Self>, owner: &Owner, id: (crate::model::ProjectName, RepositoryKey)) -> Fetch {
        let (repositories, owner) = (Arc::clone(self), owner.clone());
        let task = self.tasks.spawn(async move {
            let fetched = repositories.fetch(&owner, &id.1).await;
            // After it is kept, so that every request finds one or the other.
            repositories.fetches().remove(&id);
            fetched
        });
        let fetched = async move {
            match task.await {
                Ok(fetched) => fetched.map_err(Arc::new),
                Err(source) => Err(Arc::new(Error::Task { source })),
            }
        };
        fetched.boxed().shared()
    }

    async fn fetch(self: &Arc<Self>, owner: &Owner, key: &RepositoryKey) -> Result<RepositoryRecord, Error> {
        let turn = timeout(limits::FETCH_TURN, self.turns.take(&owner.project)).await;
        let _turn = turn.map_err(|_| RepositoryError::Busy { max: limits::MAX_FETCHES })?;
        let helper = self.create_helper(owner).await?;
        seam::at("fetch.helper");
        // Until the snapshot is recorded here, it must not be removed as one that belongs to nothing.
        let recording = self.recording.read().await;
        let fetched = timeout(limits::FETCH, self.fetch_in(owner, &helper, key)).await;
        if let Err(error) = self.lifecycle.remove_tentative(&helper).await {
            let error = &error as &dyn std::error::Error;
            warn!(sandbox = %helper, error, "could not remove the sandbox of a fetch");
        }
        // Of a directory, the name in the key may be that of a tag. A server has looked it up.
        let (snapshot, Fetched { commit, warnings }) = fetched.map_err(|_| RepositoryError::TooSlow)??;
        seam::at("fetch.snapshot");
        let record = RepositoryRecord {
            key: RepositoryKey { commit: commit.unwrap_or_else(|| key.commit.clone()), ..key.clone() },
            snapshot: snapshot.id,
            size_bytes: snapshot.size_bytes,
            warnings,
            fetched_at_ms: snapshot.created_at_ms,
            used_at_ms: now_ms(),
        };
        self.store.put_repository(&record).await?;
        self.kept.add(key, record.clone());
        drop(recording);
        let RepositoryKey { origin, commit, .. } = &record.key;
        info!(repository = %origin, %commit, bytes = record.size_bytes, "fetched a repository");
        self.make_room(&record.key).await;
        Ok(record)
    }

    /// Creates the sandbox. It reaches nothing but the relay.
    async fn create_helper(&self, owner: &Owner) -> Result<SandboxId, Error> {
        let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
        let session_key = format!("{SANDBOX_KEYS}fetch:{id}").parse().map_err(FieldError::from);
        let session_key = session_key.map_err(|error| Error::Refused(error.into()))?;
        let spec = SandboxSpec {
            owner: owner.clone(),
            network: NetworkPolicy { mode: NetworkMode::None, allow: Vec::new() },
            resources: with_disk(self.settings.max_fetched_bytes / (1024 * 1024) * COPIES)?,
            ..SandboxSpec::new(session_key)
        };
        let beginning = Beginning { seed: None, is_tentative: true };
        Ok(self.lifecycle.create_or_reconnect_with(spec, &Changes::default(), beginning).await?.id)
    }

    async fn fetch_in(
        &self,
        owner: &Owner,
        helper: &SandboxId,
        key: &RepositoryKey,
    ) -> Result<(SnapshotRecord, Fetched), Error> {
        let sandbox = self.lifecycle.find(helper)?;
        // It must not be parked meanwhile.
        let _mark = InUseMark::request(sandbox.activity());
        let agent = sandbox.running_agent().await.ok_or(Refusal::NotFound(Resource::Sandbox))?;
        let fetched = self.run_helper(owner, &sandbox, &agent, key).await?;
        let name = format!("{} {}", key.commit, key.origin);
        let name = name.chars().take(limits::MAX_SNAPSHOT_NAME).collect();
        let snapshot = self.snapshots.make_for_daemon(&sandbox, &agent, own(), name).await?;
        Ok((snapshot, fetched))
    }

    async fn run_helper(
        &self,
        owner: &Owner,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        key: &RepositoryKey,
    ) -> Result<Fetched, Error> {
        let directory = match &key.origin {
            RepositoryOrigin::Server(_) => None,
            RepositoryOrigin::Directory(name) => Some(self.directory(owner, name)?),
        };
        let helper = self.helper(key, directory).await?;
        let relay = Arc::new(helper.relay);
        sandbox.outbound().set_relay(&relay);
        let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
        let mut spec = CommandSpec::script(id, helper.script, limits::FETCH_COMMAND);
        spec.env.extend(helper.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let Output { ended, stdout, stderr } = run_to_end(agent, &spec, limits::MAX_FETCH_LOG_BYTES).await?;
        if ended.exit_code == 0 {
            return Ok(Fetched::parse(&stdout, relay.has_skipped()));
        }
        let repository = key.origin.to_string();
        if let Some(error) = relay.take_fault() {
            return Err(fault(error, &repository).into());
        }
        if ended.exit_code == NO_COMMIT {
            return Err(RepositoryError::NoRef { repository, name: Some(key.commit.to_string()) }.into());
        }
        let messages = String::from_utf8_lossy(&stderr);
        warn!(repository, exit_code = ended.exit_code, reason = ?ended.reason, %messages, "git could not fetch");
        Err(RepositoryError::Failed.into())
    }
}
