//! Wrapped servers: what is registered, what is approved of each, and the sandboxes of those with secrets.
//!
//! Starts no server. A surface does that with a command, like any client. A server with variables gets a sandbox of its
//! own, because the commands of a sandbox share a user and can read each other's environment. That sandbox is created
//! when the server is needed, and deleted with the registration or with the sandbox that the server belongs to.

mod own_key;
mod own_sandbox;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;

use super::clock::now_ms;
use super::lifecycle::Lifecycle;
use super::tasks::Tasks;
use super::{Context, Error, McpServerError};
use crate::model::mcp::{McpApproval, McpServerRecord, McpServerSpec};
use crate::model::{Refusal, Resource, SessionKey, limits};
use crate::service::Authorized;
use crate::store::Store;

/// Registers wrapped servers. Each change runs to its end even if its caller leaves, so that the store and the memory
/// agree.
#[derive(Debug)]
pub struct McpServers {
    lifecycle: Arc<Lifecycle>,
    store: Arc<Store>,
    tasks: Tasks,
    servers: Mutex<BTreeMap<Key, McpServerRecord>>,
    /// Held while a registration changes, but not while the engine works.
    changing: tokio::sync::Mutex<()>,
    /// Held while the upkeep works.
    upkeep: Arc<tokio::sync::Mutex<()>>,
}

/// Sandbox and name of a server.
type Key = (SandboxId, String);

/// A wrapped server and what follows from the sandbox that it belongs to.
#[derive(Debug, Clone)]
pub struct McpServerView {
    /// The registration.
    pub record: McpServerRecord,
    /// Session key of the sandbox that it belongs to.
    pub session_key: SessionKey,
}

impl McpServers {
    pub(in crate::service) fn new(context: &Context, lifecycle: &Arc<Lifecycle>) -> Self {
        Self {
            lifecycle: Arc::clone(lifecycle),
            store: Arc::clone(&context.store),
            tasks: context.tasks.clone(),
            servers: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            upkeep: Arc::default(),
        }
    }

    /// Reads the registrations of the previous run.
    pub(in crate::service) async fn restore(&self) -> Result<(), Error> {
        let servers = self.store.mcp_servers().await?;
        self.lock().extend(servers.into_iter().map(|server| (key_of(&server), server)));
        Ok(())
    }

    /// Registers a server. Succeeds if the same one is registered already.
    pub async fn register(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        name: String,
        spec: McpServerSpec,
    ) -> Result<McpServerView, Error> {
        let (servers, id) = (Arc::clone(self), id.clone());
        self.tasks.run_detached(async move { servers.register_now(&id, name, spec).await }).await
    }

    async fn register_now(
        &self,
        id: &SandboxId,
        name: String,
        spec: McpServerSpec,
    ) -> Result<McpServerView, Error> {
        let _changing = self.changing.lock().await;
        if own_key::is_own(&self.session_key(id)?) {
            return Err(McpServerError::Nested.into());
        }
        match self.find(id, &name) {
            Ok(found) if found.record.spec == spec => return Ok(found),
            Ok(_) => return Err(McpServerError::Exists { name }.into()),
            Err(Error::Refused(Refusal::NotFound(Resource::McpServer))) => {}
            Err(error) => return Err(error),
        }
        if self.of(id).len() >= limits::MAX_MCP_SERVERS {
            let value = limits::MAX_MCP_SERVERS as u64;
            return Err(Refusal::LimitReached { limit: "wrapped servers".into(), value }.into());
        }
        let record = McpServerRecord {
            sandbox: id.clone(),
            name,
            spec,
            version: None,
            tools_hash: None,
            tools: Default::default(),
            created_at_ms: now_ms(),
        };
        self.put(record.clone()).await?;
        self.view(record)
    }

    /// The servers of a sandbox, in order of their names. Neither wakes it nor counts as use.
    pub fn list(&self, id: &Authorized<SandboxId>) -> Result<Vec<McpServerView>, Error> {
        self.lifecycle.find(id)?;
        self.of(id).into_iter().map(|record| self.view(record)).collect()
    }

    /// A server. Neither wakes its sandbox nor counts as use.
    pub fn get(&self, id: &Authorized<SandboxId>, name: &str) -> Result<McpServerView, Error> {
        self.find(id, name)
    }

    fn find(&self, id: &SandboxId, name: &str) -> Result<McpServerView, Error> {
        self.lifecycle.find(id)?;
        let found = self.record(&(id.clone(), name.to_owned()));
        self.view(found.ok_or(Refusal::NotFound(Resource::McpServer))?)
    }

    /// Approves tools or a version of a server.
    pub async fn approve(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        name: &str,
        approval: McpApproval,
    ) -> Result<McpServerView, Error> {
        let (servers, id, name) = (Arc::clone(self), id.clone(), name.to_owned());
        self.tasks.run_detached(async move { servers.approve_now(&id, &name, approval).await }).await
    }

    async fn approve_now(
        &self,
        id: &SandboxId,
        name: &str,
        approval: McpApproval,
    ) -> Result<McpServerView, Error> {
        let _changing = self.changing.lock().await;
        let record = self.find(id, name)?.record;
        let approved = record.clone().approved(approval);
        if approved != record {
            self.put(approved.clone()).await?;
        }
        self.view(approved)
    }

    /// Removes a server, and the sandbox that it has for itself. Succeeds if it does not exist.
    pub async fn remove(self: &Arc<Self>, id: &Authorized<SandboxId>, name: &str) -> Result<(), Error> {
        self.lifecycle.find(id)?;
        let (servers, key) = (Arc::clone(self), ((**id).clone(), name.to_owned()));
        self.tasks.run_detached(async move { servers.remove_now(&key).await }).await
    }

    async fn remove_now(&self, key: &Key) -> Result<(), Error> {
        let Some(record) = self.record(key) else { return Ok(()) };
        self.delete_own_sandbox(&record).await?;
        if self.forget(key, &record).await? && self.record(key).is_none() {
            // A call may have created it again before the registration was gone.
            self.delete_own_sandbox(&record).await?;
        }
        Ok(())
    }

    /// Returns false if it was removed meanwhile, and perhaps registered again.
    async fn forget(&self, key: &Key, record: &McpServerRecord) -> Result<bool, Error> {
        let _changing = self.changing.lock().await;
        if self.record(key).is_none_or(|now| now.created_at_ms != record.created_at_ms) {
            return Ok(false);
        }
        self.store.forget_mcp_server(&key.0, &key.1).await?;
        self.lock().remove(key);
        Ok(true)
    }

    async fn put(&self, record: McpServerRecord) -> Result<(), Error> {
        self.store.put_mcp_server(&record).await?;
        self.lock().insert(key_of(&record), record);
        Ok(())
    }

    fn record(&self, key: &Key) -> Option<McpServerRecord> {
        self.lock().get(key).cloned()
    }

    fn of(&self, id: &SandboxId) -> Vec<McpServerRecord> {
        self.lock().values().filter(|record| record.sandbox == *id).cloned().collect()
    }

    fn session_key(&self, id: &SandboxId) -> Result<SessionKey, Error> {
        Ok(self.lifecycle.find(id)?.with_spec(|spec| spec.session_key.clone()))
    }

    fn view(&self, record: McpServerRecord) -> Result<McpServerView, Error> {
        let sandbox = self.lifecycle.find(&record.sandbox)?;
        let session_key = sandbox.with_spec(|spec| spec.session_key.clone());
        Ok(McpServerView { record, session_key })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, McpServerRecord>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(record: &McpServerRecord) -> Key {
    (record.sandbox.clone(), record.name.clone())
}
