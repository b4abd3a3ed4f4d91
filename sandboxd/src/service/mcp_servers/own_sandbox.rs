//! The sandbox of a server with secrets.

use std::sync::Arc;

use sandbox_api::SandboxId;

use super::{McpServers, own_key};
use crate::model::SandboxSpec;
use crate::model::mcp::McpServerRecord;
use crate::model::network::NetworkRequest;
use crate::model::secret::SECRET_BYTES;
use crate::service::Authorized;
use crate::service::lifecycle::{Changes, Reconnected, Sandbox};
use crate::service::{Error, McpServerError, SpecError};

impl McpServers {
    /// Prepares the sandbox in which a server runs, and returns it: the one that the server belongs to, or its own.
    pub async fn open(self: &Arc<Self>, id: &Authorized<SandboxId>, name: &str) -> Result<SandboxId, Error> {
        let record = self.get(id, name)?.record;
        if !record.has_own_sandbox() {
            return Ok((**id).clone());
        }
        let servers = Arc::clone(self);
        self.tasks.run_detached(async move { servers.open_own(&record).await }).await
    }

    async fn open_own(&self, record: &McpServerRecord) -> Result<SandboxId, Error> {
        let opened = self.create_or_reconnect(record).await?;
        let now = self.record(&(record.sandbox.clone(), record.name.clone()));
        if now.as_ref().is_some_and(|now| now.created_at_ms == record.created_at_ms) {
            // It may be older than a database that was restored.
            let is_same = opened.spec.env == record.spec.env;
            return if is_same {
                Ok(opened.id)
            } else {
                Err(Error::McpServer(McpServerError::Outdated { sandbox: opened.id }))
            };
        }
        // The registration was removed meanwhile, when there was no sandbox to delete yet.
        self.lifecycle.delete(&Authorized::new(opened.id)).await?;
        self.find(&record.sandbox, &record.name)?;
        Err(Error::ConcurrentTransitions)
    }

    async fn create_or_reconnect(&self, record: &McpServerRecord) -> Result<Reconnected, Error> {
        let spec = self.spec_of(record)?;
        let network = NetworkRequest::replacing(spec.network.clone());
        let changes = Changes { network: Some(network), ..Changes::default() };
        match self.lifecycle.create_or_reconnect(spec.clone(), &changes).await {
            Err(Error::Spec(SpecError::NetworkHeld)) => {}
            done => return done,
        }
        if let Some(own) = self.own_sandbox(record)? {
            self.lifecycle.park(&Authorized::new(own.id().clone()), true).await?;
        }
        self.lifecycle.create_or_reconnect(spec, &changes).await
    }

    /// The same image, size and network as those of the sandbox that the server belongs to.
    fn spec_of(&self, record: &McpServerRecord) -> Result<SandboxSpec, Error> {
        let secret = record.spec.env.iter().filter(|(_, value)| SECRET_BYTES.contains(&value.len()));
        let secret_env = secret.map(|(name, _)| name.clone()).collect();
        let session_key = own_key::of(&record.sandbox, &record.name)?;
        let of = self.lifecycle.find(&record.sandbox)?.with_spec(Clone::clone);
        Ok(SandboxSpec {
            session_key,
            ports: Vec::new(),
            env: record.spec.env.clone(),
            secret_env,
            metadata: Default::default(),
            ..of
        })
    }

    /// Gives the sandbox of a server the network of the one that the server belongs to. Ends the server if that needs
    /// another container.
    pub(super) async fn align_network(&self, own: &Sandbox) -> Result<(), Error> {
        let Some(network) = self.other_network(own) else { return Ok(()) };
        let id = Authorized::new(own.id().clone());
        let change = || self.lifecycle.change_network(&id, NetworkRequest::replacing(network.clone()));
        match change().await {
            Err(Error::Spec(SpecError::NetworkHeld)) => {}
            done => return done.map(drop),
        }
        self.lifecycle.park(&id, true).await?;
        change().await.map(drop)
    }

    /// Deletes the sandbox of a server, if it has one.
    pub(super) async fn delete_own_sandbox(&self, record: &McpServerRecord) -> Result<(), Error> {
        match self.own_sandbox(record)?.filter(|_| record.has_own_sandbox()) {
            Some(own) => self.lifecycle.delete(&Authorized::new(own.id().clone())).await,
            None => Ok(()),
        }
    }

    fn own_sandbox(&self, record: &McpServerRecord) -> Result<Option<Arc<Sandbox>>, Error> {
        let session_key = own_key::of(&record.sandbox, &record.name)?;
        let is_own = |sandbox: &Arc<Sandbox>| sandbox.with_spec(|spec| spec.session_key == session_key);
        Ok(self.lifecycle.all().into_iter().find(is_own))
    }
}
