//! Fetches one commit of a repository, in a sandbox that is removed afterwards.
//!
//! The sandbox belongs to the owner of the request, so it counts like any other. But it is tentative: no client can use it, or
//! change the files that others get. If the daemon is killed, the next start removes it.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use sandbox_api::{CommandId, SandboxId};
use tokio::time::timeout;
use tracing::{info, warn};

use super::open::with_disk;
use super::resolve::fault;
use super::{Fetch, Repositories, own};
use crate::agent::{AgentHandle, ReaderId};
use crate::git::Relay;
use crate::model::command::Stream;
use crate::model::repository::{RepositoryKey, RepositoryRecord, RepositoryWarning, SANDBOX_KEYS};
use crate::model::{
    CommandSpec, Ended, Event, FieldError, NetworkMode, NetworkPolicy, Owner, Refusal, Resource, SandboxSpec,
    SnapshotRecord, limits,
};
use crate::seam;
use crate::service::clock::now_ms;
use crate::service::lifecycle::{Beginning, Changes, InUseMark, Sandbox};
use crate::service::{Error, RepositoryError};

/// Fetches into the workspace, and prints what is missing in the files. The variables are checked values.
const SCRIPT: &str = include_str!("fetch.sh");

/// Exit code of [`SCRIPT`] if the repository does not give the commit.
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
        let fetched = timeout(limits::FETCH, self.fetch_in(&helper, key)).await;
        if let Err(error) = self.lifecycle.remove_tentative(&helper).await {
            let error = &error as &dyn std::error::Error;
            warn!(sandbox = %helper, error, "could not remove the sandbox of a fetch");
        }
        let (snapshot, warnings) = fetched.map_err(|_| RepositoryError::TooSlow)??;
        seam::at("fetch.snapshot");
        let record = RepositoryRecord {
            key: key.clone(),
            snapshot: snapshot.id,
            size_bytes: snapshot.size_bytes,
            warnings,
            fetched_at_ms: snapshot.created_at_ms,
            used_at_ms: now_ms(),
        };
        self.store.put_repository(&record).await?;
        self.kept.add(record.clone());
        drop(recording);
        info!(repository = %key.url, commit = %key.commit, bytes = record.size_bytes, "fetched a repository");
        self.make_room(key).await;
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
        helper: &SandboxId,
        key: &RepositoryKey,
    ) -> Result<(SnapshotRecord, Vec<RepositoryWarning>), Error> {
        let sandbox = self.lifecycle.find(helper)?;
        // It must not be parked meanwhile.
        let _mark = InUseMark::request(sandbox.activity());
        let agent = sandbox.running_agent().await.ok_or(Refusal::NotFound(Resource::Sandbox))?;
        let warnings = self.run_git(&sandbox, &agent, key).await?;
        let name = format!("{} {}", key.commit, key.url);
        let name = name.chars().take(limits::MAX_SNAPSHOT_NAME).collect();
        let snapshot = self.snapshots.make_for_daemon(&sandbox, &agent, own(), name).await?;
        Ok((snapshot, warnings))
    }

    async fn run_git(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        key: &RepositoryKey,
    ) -> Result<Vec<RepositoryWarning>, Error> {
        let max_bytes = self.settings.max_fetched_bytes;
        let relay = Relay::new(self.client.clone(), key.url.clone(), key.with_token, max_bytes);
        let relay = Arc::new(relay);
        sandbox.outbound().set_relay(&relay);
        let id = CommandId::random().map_err(|source| Error::Randomness { source })?;
        let mut spec = CommandSpec::script(id, SCRIPT, limits::FETCH_COMMAND);
        let variables = [
            ("RELAY", Relay::URL.to_owned()),
            ("COMMIT", key.commit.to_string()),
            ("ORIGIN", key.url.to_string()),
        ];
        spec.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
        let (ended, stdout, stderr) = run(agent, &spec).await?;
        if ended.exit_code == 0 {
            let lines = String::from_utf8_lossy(&stdout).into_owned();
            return Ok(lines.lines().filter_map(RepositoryWarning::parse).collect());
        }
        let repository = key.url.to_string();
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

/// Runs a command to its end. Returns the beginnings of its outputs.
async fn run(agent: &AgentHandle, spec: &CommandSpec) -> Result<(Ended, Vec<u8>, Vec<u8>), Error> {
    let mut events = agent.run(spec, ReaderId::next()).await?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        match event? {
            Event::Output(records) => {
                for record in records {
                    let output = match record.stream {
                        Stream::Stdout => &mut stdout,
                        Stream::Stderr => &mut stderr,
                        Stream::Trace | Stream::Stage => continue,
                    };
                    let left = limits::MAX_FETCH_LOG_BYTES.saturating_sub(output.len());
                    output.extend_from_slice(&record.data[..record.data.len().min(left)]);
                }
            }
            Event::Ended { ended, .. } => return Ok((ended, stdout, stderr)),
            Event::Started(_) | Event::Gap { .. } | Event::Heartbeat => {}
        }
    }
    Ok((Ended::LOST, stdout, stderr))
}
