//! Wrapped servers: what is registered, what is approved of each, and the sandboxes of those with secrets.
//!
//! Starts no server. A surface does that with a command, like any client. A server with variables gets a sandbox of its
//! own, because the commands of a sandbox share a user and can read each other's environment. That sandbox is created
//! when the server is needed, and deleted with the registration or with the sandbox that the server belongs to.

mod own_key;
mod own_sandbox;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tracing::debug;

use super::clock::now_ms;
use super::lifecycle::Lifecycle;
use super::{Context, Error};
use crate::model::mcp::{McpApproval, McpServerRecord, McpServerSpec};
use crate::model::{Refusal, Resource, SessionKey, limits};
use crate::store::Store;

/// Registers wrapped servers.
#[derive(Debug)]
pub struct McpServers {
    lifecycle: Arc<Lifecycle>,
    store: Arc<Store>,
    servers: Mutex<BTreeMap<Key, McpServerRecord>>,
    /// Held while a registration changes.
    changing: tokio::sync::Mutex<()>,
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
            servers: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
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
        &self,
        id: &SandboxId,
        name: String,
        spec: McpServerSpec,
    ) -> Result<McpServerView, Error> {
        let _changing = self.changing.lock().await;
        if own_key::is_own(&self.session_key(id)?) {
            return Err(Error::McpServerNested);
        }
        match self.get(id, &name) {
            Ok(found) if found.record.spec == spec => return Ok(found),
            Ok(_) => return Err(Error::McpServerExists { name }),
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
    pub fn list(&self, id: &SandboxId) -> Result<Vec<McpServerView>, Error> {
        self.lifecycle.find(id)?;
        self.of(id).into_iter().map(|record| self.view(record)).collect()
    }

    /// A server. Neither wakes its sandbox nor counts as use.
    pub fn get(&self, id: &SandboxId, name: &str) -> Result<McpServerView, Error> {
        self.lifecycle.find(id)?;
        let found = self.lock().get(&(id.clone(), name.to_owned())).cloned();
        self.view(found.ok_or(Refusal::NotFound(Resource::McpServer))?)
    }

    /// Approves tools or a version of a server.
    pub async fn approve(
        &self,
        id: &SandboxId,
        name: &str,
        approval: McpApproval,
    ) -> Result<McpServerView, Error> {
        let _changing = self.changing.lock().await;
        let record = self.get(id, name)?.record;
        let approved = record.clone().approved(approval);
        if approved != record {
            self.put(approved.clone()).await?;
        }
        self.view(approved)
    }

    /// Removes a server, and the sandbox that it has for itself. Succeeds if it does not exist.
    pub async fn remove(&self, id: &SandboxId, name: &str) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        self.lifecycle.find(id)?;
        self.remove_now(&(id.clone(), name.to_owned())).await
    }

    /// Removes the servers of sandboxes that no longer exist.
    pub(in crate::service) async fn remove_of_deleted(&self) {
        let gone = |key: &&Key| self.lifecycle.registered(&key.0).is_none();
        let gone: Vec<Key> = self.lock().keys().filter(gone).cloned().collect();
        for key in gone {
            let _changing = self.changing.lock().await;
            if let Err(error) = self.remove_now(&key).await {
                debug!(sandbox = %key.0, error = &error as &dyn std::error::Error, "could not remove a wrapped server yet");
            }
        }
    }

    async fn remove_now(&self, key: &Key) -> Result<(), Error> {
        if !self.lock().contains_key(key) {
            return Ok(());
        }
        self.delete_own_sandbox(key).await?;
        self.store.forget_mcp_server(&key.0, &key.1).await?;
        self.lock().remove(key);
        Ok(())
    }

    async fn put(&self, record: McpServerRecord) -> Result<(), Error> {
        self.store.put_mcp_server(&record).await?;
        self.lock().insert(key_of(&record), record);
        Ok(())
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
