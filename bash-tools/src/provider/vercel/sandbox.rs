//! A session's sandbox by its name, and its current machine.
//!
//! In Vercel's terms, a sandbox has a name and files, and a session is a machine that runs them for a while. A
//! sandbox outlives its sessions, and every operation names a session. The current session is only cached to save a
//! request. If it is outdated, the response is 410, and the sandbox is woken.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use tokio::time::{Instant, sleep};

use super::Vercel;
use super::call::{ACTION_TIMEOUT, Call, READ_TIMEOUT, path};
use super::fault::Fault;
use super::name::{id, name_of, parts};
use super::wire::{Found, MakeDirectory};
use crate::chat_key::ChatKey;
use crate::provider::{Limits, Opened, SandboxId, SandboxState, Status, WORKSPACE};

/// Maximum time to wait until a stopping sandbox can be woken.
const STOPPING: Duration = Duration::from_secs(30);

/// How often it is checked in that time.
const STOPPING_POLL: Duration = Duration::from_millis(500);

/// Memory that Vercel provides per processor.
const MEMORY_PER_VCPU: u64 = 2048 * 1024 * 1024;

/// Maximum number of sandboxes whose session is cached.
const MAX_REMEMBERED: usize = 1024;

impl Vercel {
    pub(super) async fn find_or_create(&self, key: &ChatKey) -> Result<Opened, Fault> {
        let name = name_of(key);
        let found = match self.look(&name, true).await {
            Err(fault) if fault.is_of_lost_snapshot() => {
                self.remove(&name).await?;
                None
            }
            found => found?,
        };
        let (found, is_new) = match found {
            Some(found) => (found, false),
            None => self.create(&name).await?,
        };
        let sandbox = id(&name, &found);
        self.settle(&sandbox, &found).await?;
        Ok(Opened { sandbox, is_new })
    }

    /// Finds a sandbox without waking it.
    pub(super) async fn find_by_key(&self, key: &ChatKey) -> Result<Option<SandboxId>, Fault> {
        let name = name_of(key);
        match self.look(&name, false).await {
            Err(fault) if fault.is_of_lost_snapshot() => Ok(None),
            found => Ok(found?.map(|found| id(&name, &found))),
        }
    }

    /// Runs an operation in the sandbox's session, and once more in the next session if that has stopped.
    pub(super) async fn in_session<T, A>(
        &self,
        sandbox: &SandboxId,
        act: impl Fn(Arc<str>) -> A,
    ) -> Result<T, Fault>
    where
        A: Future<Output = Result<T, Fault>>,
    {
        let session = match self.remembered(sandbox) {
            Some(session) => session,
            None => self.wake(sandbox).await?.0,
        };
        match act(session).await {
            Err(fault) if fault.is_of_stopped_session() => act(self.wake(sandbox).await?.0).await,
            Err(fault) => {
                if fault.is_not_found() {
                    self.forget(sandbox);
                }
                Err(fault)
            }
            acted => acted,
        }
    }

    /// Returns the sandbox with a running session.
    pub(super) async fn wake(&self, sandbox: &SandboxId) -> Result<(Arc<str>, Found), Fault> {
        self.forget(sandbox);
        let found = match self.same(sandbox, true).await {
            // The name exists without its files. It counts as deleted, and the next opening recreates it.
            Err(fault) if fault.is_of_lost_snapshot() => return Err(Fault::Replaced),
            found => found?,
        };
        Ok((self.settle(sandbox, &found).await?, found))
    }

    /// Reads the status without waking the sandbox.
    pub(super) async fn status_of(&self, sandbox: &SandboxId) -> Result<Status, Fault> {
        let found = self.same(sandbox, false).await?;
        let vcpus = self.options.vcpus;
        Ok(Status {
            sandbox: sandbox.clone(),
            state: match found.session.status.as_str() {
                "running" => SandboxState::Running,
                "pending" => SandboxState::Opening,
                _ => SandboxState::Parked,
            },
            image: Some(self.options.runtime.clone()),
            limits: Limits {
                vcpus: Some(vcpus),
                memory_bytes: Some(vcpus * MEMORY_PER_VCPU),
                ..Limits::default()
            },
            usage: None,
            running_commands: None,
            last_active_at: None,
            expires_at: None,
            network: None,
            posture: None,
        })
    }

    /// Stops the machine. Safe to repeat.
    pub(super) async fn stop(&self, sandbox: &SandboxId) -> Result<(), Fault> {
        self.forget(sandbox);
        let found = self.same(sandbox, false).await?;
        if matches!(found.session.status.as_str(), "stopped" | "stopping" | "snapshotting") {
            return Ok(());
        }
        let stop = Call::post(path(&["sessions", &found.session.id, "stop"])).within(ACTION_TIMEOUT);
        match self.api.done(&stop).await {
            Err(fault) if fault.is_of_stopped_session() => Ok(()),
            stopped => stopped,
        }
    }

    /// Deletes the sandbox. Safe to repeat.
    pub(super) async fn delete_same(&self, sandbox: &SandboxId) -> Result<(), Fault> {
        self.forget(sandbox);
        match self.same(sandbox, false).await {
            Err(Fault::Replaced) => Ok(()),
            Err(fault) if fault.is_not_found() => Ok(()),
            Err(fault) if !fault.is_of_lost_snapshot() => Err(fault),
            _ => self.remove(parts(sandbox)?.0).await,
        }
    }

    /// Whether the sandbox still exists, after something in it was not found.
    pub(super) async fn exists(&self, sandbox: &SandboxId) -> Result<bool, Fault> {
        match self.same(sandbox, false).await {
            Err(Fault::Replaced) => Ok(false),
            Err(fault) if fault.is_not_found() => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns this sandbox, and not another one that got its name later.
    async fn same(&self, sandbox: &SandboxId, resume: bool) -> Result<Found, Fault> {
        let (name, created_at) = parts(sandbox)?;
        let found = self.look(name, resume).await?.ok_or(Fault::Replaced)?;
        if found.sandbox.created_at.to_string() != created_at {
            return Err(Fault::Replaced);
        }
        Ok(found)
    }

    /// Returns the sandbox with this name. If it is to be woken and is still stopping, waits for that.
    async fn look(&self, name: &str, resume: bool) -> Result<Option<Found>, Fault> {
        let call = Call::get(path(&[name])).within(if resume { ACTION_TIMEOUT } else { READ_TIMEOUT });
        let call = call.query("projectId", self.api.project()).query("resume", resume.to_string());
        let until = Instant::now() + STOPPING;
        loop {
            match self.api.json(&call).await {
                Err(fault) if fault.is_not_found() => return Ok(None),
                Err(fault) if fault.is_of_stopping_session() && Instant::now() < until => {
                    sleep(STOPPING_POLL).await;
                }
                found => return found.map(Some),
            }
        }
    }

    async fn create(&self, name: &str) -> Result<(Found, bool), Fault> {
        let request = self.options.body(self.api.project(), name);
        match self.api.json(&Call::post(path(&[])).json(&request).within(ACTION_TIMEOUT)).await {
            // Another process of this app created it first.
            Err(fault) if fault.status() == Some(StatusCode::CONFLICT) => {
                self.look(name, true).await?.ok_or(fault).map(|found| (found, false))
            }
            created => created.map(|created| (created, true)),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Fault> {
        let call = Call::delete(path(&[name])).within(ACTION_TIMEOUT);
        let call = call.query("projectId", self.api.project()).query("deleteOrphanSnapshots", "true");
        match self.api.done(&call).await {
            Err(fault) if fault.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    /// Creates the workspace in a new session and caches the session.
    async fn settle(&self, sandbox: &SandboxId, found: &Found) -> Result<Arc<str>, Fault> {
        let session: Arc<str> = found.session.id.as_str().into();
        match self.options.source {
            Some(_) => self.move_source(&session).await?,
            None => {
                let make = MakeDirectory { path: WORKSPACE, recursive: true };
                self.api.done(&Call::post(path(&["sessions", &session, "fs", "mkdir"])).json(&make)).await?;
            }
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_REMEMBERED {
            sessions.clear();
        }
        sessions.insert(sandbox.clone(), Arc::clone(&session));
        Ok(session)
    }

    fn remembered(&self, sandbox: &SandboxId) -> Option<Arc<str>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(sandbox).cloned()
    }

    pub(super) fn forget(&self, sandbox: &SandboxId) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(sandbox);
    }
}
