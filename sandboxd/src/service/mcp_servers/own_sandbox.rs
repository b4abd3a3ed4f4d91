//! The sandbox of a server with secrets.

use std::sync::Arc;

use sandbox_api::SandboxId;

use super::{Key, McpServers, own_key};
use crate::model::SandboxSpec;
use crate::model::mcp::McpServerRecord;
use crate::model::secret::SECRET_BYTES;
use crate::service::Error;
use crate::service::lifecycle::{Changes, Sandbox};

impl McpServers {
    /// Prepares the sandbox in which a server runs, and returns it: the one that the server belongs to, or its own.
    pub async fn open(&self, id: &SandboxId, name: &str) -> Result<SandboxId, Error> {
        let record = self.get(id, name)?.record;
        if !record.has_own_sandbox() {
            return Ok(id.clone());
        }
        let spec = self.spec_of(&record)?;
        let opened = self.lifecycle.create_or_reconnect(spec, &Changes::default()).await?;
        // The registration may have been removed meanwhile, when there was no sandbox to delete yet.
        let still = self.get(id, name).map(|view| view.record.created_at_ms);
        match still {
            Ok(created_at_ms) if created_at_ms == record.created_at_ms => Ok(opened.id),
            other => {
                self.lifecycle.delete(&opened.id).await?;
                other.and(Err(Error::ConcurrentTransitions))
            }
        }
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

    /// Deletes the sandbox of a server, if it has one.
    pub(super) async fn delete_own_sandbox(&self, key: &Key) -> Result<(), Error> {
        let session_key = own_key::of(&key.0, &key.1)?;
        let is_own = |sandbox: &&Arc<Sandbox>| sandbox.with_spec(|spec| spec.session_key == session_key);
        let found = self.lifecycle.all().iter().find(is_own).map(|sandbox| sandbox.id().clone());
        match found {
            Some(id) => self.lifecycle.delete(&id).await,
            None => Ok(()),
        }
    }
}
