//! The sandbox of a server with secrets.

use sandbox_api::SandboxId;

use super::{Key, McpServers};
use crate::model::mcp::McpServerRecord;
use crate::model::secret::SECRET_BYTES;
use crate::model::{FieldError, SandboxSpec, SessionKey};
use crate::service::Error;
use crate::service::lifecycle::Changes;

/// Beginning of the session keys of these sandboxes. It is in no namespace of a surface, so no tool reaches them.
const PREFIX: &str = "mcp-server:";

/// Whether the session key is that of a server's own sandbox.
pub(super) fn is_key(key: &SessionKey) -> bool {
    key.to_string().starts_with(PREFIX)
}

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
        let session_key = session_key(&(record.sandbox.clone(), record.name.clone()))?;
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
        let session_key = session_key(key)?;
        let is_own = |sandbox: &&std::sync::Arc<crate::service::lifecycle::Sandbox>| {
            sandbox.with_spec(|spec| spec.session_key == session_key)
        };
        let found = self.lifecycle.all().iter().find(is_own).map(|sandbox| sandbox.id().clone());
        match found {
            Some(id) => self.lifecycle.delete(&id).await,
            None => Ok(()),
        }
    }
}

fn session_key((sandbox, name): &Key) -> Result<SessionKey, Error> {
    let key = format!("{PREFIX}{sandbox}:{name}").parse().map_err(FieldError::from);
    key.map_err(|error| Error::Refused(error.into()))
}
