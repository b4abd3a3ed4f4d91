//! Forks: new sandboxes with the files, the values and the configuration of another one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use sandbox_api::SandboxId;
use tracing::warn;

use super::{SnapshotOptions, Snapshots};
use crate::model::{FieldError, Refusal, SandboxSpec, SessionKey, limits};
use crate::seam;
use crate::service::Authorized;
use crate::service::lifecycle::{Changes, Reconnected};
use crate::service::{Error, SnapshotError};

/// Number of sandboxes that are created at the same time.
const CONCURRENCY: usize = 4;

impl Snapshots {
    /// Creates a sandbox for each of the sessions, with the files and values of sandbox `id`. All of them are created, or none, also if
    /// the daemon is killed. They inherit its configuration without the values of its environment.
    pub async fn fork(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        sessions: Vec<SessionKey>,
    ) -> Result<Vec<Reconnected>, Error> {
        let distinct: HashSet<&SessionKey> = sessions.iter().collect();
        if distinct.len() != sessions.len() {
            return Err(Refusal::from(FieldError::new("sessionKeys", "must all be different")).into());
        }
        let owner = self.lifecycle.find(id)?.owner().clone();
        if let Some(taken) = sessions.iter().find(|session| self.lifecycle.has_session(&owner, session)) {
            return Err(SnapshotError::SessionTaken { session_key: taken.clone() }.into());
        }
        let (snapshots, id) = (Arc::clone(self), id.clone());
        self.tasks.run_detached(async move { snapshots.fork_now(&id, sessions).await }).await
    }

    async fn fork_now(
        &self,
        id: &Authorized<SandboxId>,
        sessions: Vec<SessionKey>,
    ) -> Result<Vec<Reconnected>, Error> {
        let spec = self.lifecycle.find(id)?.labels().spec;
        let options = SnapshotOptions {
            name: Some(format!("fork of {}", **id)),
            ttl: Some(limits::FORK_SNAPSHOT_TTL),
            pause: false,
        };
        let snapshot = self.make(id, options).await?.record.id;
        let (_, _pin) = self.pinned(&snapshot).await?;
        let created: Vec<Result<Reconnected, Error>> = stream::iter(sessions)
            .map(|session_key| {
                let spec =
                    SandboxSpec { session_key, env: BTreeMap::new(), secret_env: Vec::new(), ..spec.clone() };
                async { self.create_new(spec, &snapshot).await }
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let forks: Vec<SandboxId> = created.iter().flatten().map(|fork| fork.id.clone()).collect();
        let confirmed = async {
            let created: Vec<Reconnected> = stream::iter(created).try_collect().await?;
            self.lifecycle.confirm(&forks).await?;
            Ok(created)
        };
        let confirmed = confirmed.await;
        if confirmed.is_err() {
            self.undo(&forks).await;
        }
        confirmed
    }

    async fn create_new(
        &self,
        spec: SandboxSpec,
        snapshot: &sandbox_api::SnapshotId,
    ) -> Result<Reconnected, Error> {
        let session_key = spec.session_key.clone();
        let seed = self.seed(snapshot).await;
        let found = self.create_with(spec, &Changes::default(), seed, true).await?;
        seam::at("fork.created");
        // Another request has created it since this one checked.
        if found.created {
            Ok(found)
        } else {
            Err(Error::Snapshot(SnapshotError::SessionTaken { session_key }))
        }
    }

    /// Deletes the sandboxes that were created before one failed.
    async fn undo(&self, forks: &[SandboxId]) {
        for fork in forks {
            if let Err(error) = self.lifecycle.remove_tentative(fork).await {
                warn!(sandbox = %fork, error = &error as &dyn std::error::Error, "could not delete a sandbox of a fork that has failed");
            }
        }
    }
}
