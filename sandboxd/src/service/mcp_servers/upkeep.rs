//! Upkeep of wrapped servers after a sandbox was deleted or changed.

use std::sync::Arc;

use tracing::debug;

use super::{Key, McpServers, own_key};
use crate::model::{NetworkPolicy, Stage};
use crate::service::Error;
use crate::service::lifecycle::Sandbox;

/// Something to do.
#[derive(Debug)]
enum Due {
    /// The sandbox that the server belongs to is not registered.
    Remove(Key),
    /// The sandbox that the server belongs to has another network.
    Align(Arc<Sandbox>),
}

impl McpServers {
    /// Does what is due, in a task, because the engine may take long. Does nothing while the task of an earlier call
    /// runs.
    pub(in crate::service) fn tidy_up(self: &Arc<Self>) {
        let Ok(turn) = Arc::clone(&self.upkeep).try_lock_owned() else { return };
        let due = self.due();
        if due.is_empty() {
            return;
        }
        let servers = Arc::clone(self);
        self.tasks.spawn(async move {
            for due in due {
                if let Err(error) = servers.perform(&due).await {
                    debug!(
                        ?due,
                        error = &error as &dyn std::error::Error,
                        "could not tidy up a wrapped server yet"
                    );
                }
            }
            drop(turn);
        });
    }

    async fn perform(&self, due: &Due) -> Result<(), Error> {
        match due {
            Due::Remove(key) => self.remove_of_deleted(key).await,
            Due::Align(own) => self.align_network(own).await,
        }
    }

    /// Removes a server if the store does not know its sandbox either. One that could not be restored is still there.
    async fn remove_of_deleted(&self, key: &Key) -> Result<(), Error> {
        let is_known = self.store.sandboxes().await?.iter().any(|record| record.id == key.0);
        if is_known { Ok(()) } else { self.remove_now(key).await }
    }

    fn due(&self) -> Vec<Due> {
        let is_gone = |key: &&Key| self.lifecycle.registered(&key.0).is_none();
        let gone: Vec<Key> = self.lock().keys().filter(is_gone).cloned().collect();
        let sandboxes = self.lifecycle.all().into_iter().filter_map(|sandbox| self.due_of(sandbox));
        gone.into_iter().map(Due::Remove).chain(sandboxes).collect()
    }

    fn due_of(&self, sandbox: Arc<Sandbox>) -> Option<Due> {
        if !sandbox.with_spec(|spec| own_key::is_own(&spec.session_key)) {
            return None;
        }
        let is_usable = matches!(sandbox.stage(), Stage::Running | Stage::Parked);
        (is_usable && self.other_network(&sandbox).is_some()).then_some(Due::Align(sandbox))
    }

    /// The network that the sandbox of a server should have, if it has another one.
    pub(super) fn other_network(&self, own: &Sandbox) -> Option<NetworkPolicy> {
        let (key, network) = own.with_spec(|spec| (spec.session_key.clone(), spec.network.clone()));
        let belongs_to = self.lifecycle.registered(&own_key::server_of(&key)?.0)?;
        Some(belongs_to.with_spec(|spec| spec.network.clone())).filter(|wanted| *wanted != network)
    }
}
