//! The sandbox of one conversation, for hosts that use more of it than tools.

use std::sync::Arc;

use sandbox_api::SandboxId;
use sandbox_api::sandbox::{ListSandboxes, Sandbox};
use sandbox_client::{Client, Error as ClientError};

use crate::sandboxes::Sandboxes;
use crate::{Memory, Namespace, NamespaceError};

/// Sandboxes on one page of a list.
const PAGE: u32 = 1000;

/// The sandbox of one conversation of a host. The conversation's tools use the same one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    key: String,
    sandboxes: Arc<Sandboxes>,
}

impl Session {
    /// The session of a conversation in `namespace`.
    pub fn new(
        client: Client,
        namespace: &Namespace,
        conversation: &str,
        memory: &Memory,
    ) -> Result<Self, NamespaceError> {
        let key = namespace.host_key(conversation)?;
        Ok(Self { client, key, sandboxes: Arc::clone(&memory.sandboxes) })
    }

    /// Key of the session.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the running sandbox. Creates it if there is none, and wakes it if it is parked.
    pub async fn open(&self) -> Result<SandboxId, ClientError> {
        Ok(self.sandboxes.open(&self.client, self.key.clone()).await?.sandbox)
    }

    /// Returns the sandbox if there is one. Neither creates nor wakes it.
    pub async fn find(&self) -> Result<Option<SandboxId>, ClientError> {
        let which = ListSandboxes { session_key: Some(self.key.clone()), ..ListSandboxes::default() };
        Ok(own_sandbox(&self.client, which).await?.map(|found| found.sandbox_id))
    }
}

/// The sandbox of a session that has the owner of the client's token. A token without a subject also sees the sandboxes of
/// subjects, and any of them may have the same session key.
pub(crate) async fn own_sandbox(
    client: &Client,
    which: ListSandboxes,
) -> Result<Option<Sandbox>, ClientError> {
    let mut which = ListSandboxes { limit: Some(PAGE), ..which };
    let mut own = None;
    loop {
        let page = client.list(&which).await?;
        if own.is_none() && page.sandboxes.iter().any(|found| found.subject.is_some()) {
            own = client.whoami().await?.subject;
        }
        let found = page.sandboxes.into_iter().find(|found| found.subject == own);
        if found.is_some() || page.next_cursor.is_none() {
            return Ok(found);
        }
        which.cursor = page.next_cursor;
    }
}
