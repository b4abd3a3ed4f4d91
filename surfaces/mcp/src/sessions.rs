//! Sessions of the revisions with a handshake.
//!
//! A session only carries messages back to its client. Nothing else depends on it, so it can be closed at any time: to
//! make room for another one, when it has been idle, or by a restart of the daemon. The next request with its id opens
//! it again, and the client notices nothing. Ids that get here are proven: see [`session_owner`](crate::session_owner).

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ElicitationCapability, Implementation, InitializeRequestParams,
    ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, create_local_session,
};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager, SessionState, SessionStore,
    SessionStoreError,
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::approval;

/// Maximum number of open sessions. For a further one, the one that was used longest ago is closed.
const MAX_SESSIONS: usize = 256;

/// Messages that a session keeps for a client that continues a stream. Each may be as long as a result.
const KEPT_MESSAGES: usize = 4;

/// Time in which a session that makes room for another one must close. One whose client does not read may never take
/// the request to close.
const CLOSE: Duration = Duration::from_secs(1);

/// Maximum number of ids that are kept for one reason.
const MAX_REMEMBERED: usize = 10_000;

/// State of sessions that are not open, by their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ids {
    /// Ids of sessions that their client has ended.
    ended: Arc<Mutex<Recent>>,
    /// Ids of sessions whose client lets its user be asked.
    asking: Arc<Mutex<Recent>>,
}

/// The most recent of many ids.
#[derive(Debug, Default)]
struct Recent {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Recent {
    fn add(&mut self, id: &str) {
        if self.known.insert(id.to_owned()) {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Looks up sessions that are not open, by their ids alone.
#[async_trait::async_trait]
impl SessionStore for Ids {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let asks = lock(&self.asking).known.contains(id);
        let has_ended = lock(&self.ended).known.contains(id);
        Ok((!has_ended).then(|| SessionState::new(handshake(asks))))
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        if approval::is_offered(&state.initialize_params.capabilities) {
            lock(&self.asking).add(id);
        }
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        lock(&self.ended).add(id);
        Ok(())
    }
}

/// The handshake of a session that is opened again: that of a client without further capabilities, unless this process
/// knows that its user can be asked.
fn handshake(asks: bool) -> InitializeRequestParams {
    let client = Implementation::new("unknown", "0");
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = asks.then(ElicitationCapability::default);
    InitializeRequestParams::new(capabilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
}

/// The open sessions.
pub(crate) struct Sessions {
    open: LocalSessionManager,
    /// Ids in the order of their last message. Some may be closed already.
    order: Mutex<VecDeque<SessionId>>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        let mut open = LocalSessionManager::default();
        open.session_config.channel_capacity = KEPT_MESSAGES;
        Self { open, order: Mutex::default() }
    }

    /// Registers a session that is about to open. If there are too many, closes the oldest.
    async fn make_room(&self, id: &SessionId) {
        let excess = {
            let mut order = lock(&self.order);
            order.push_back(Arc::clone(id));
            if order.len() > MAX_SESSIONS { order.pop_front() } else { None }
        };
        if let Some(oldest) = excess {
            // It may have ended by itself.
            let _ = timeout(CLOSE, self.open.close_session(&oldest)).await;
        }
    }
}

impl Sessions {
    /// Notes that a session is in use.
    fn touch(&self, id: &SessionId) {
        let mut order = lock(&self.order);
        if let Some(at) = order.iter().position(|open| open == id)
            && let Some(id) = order.remove(at)
        {
            order.push_back(id);
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let id: SessionId = Uuid::new_v4().simple().to_string().into();
        self.make_room(&id).await;
        let (handle, worker) = create_local_session(Arc::clone(&id), self.open.session_config.clone());
        self.open.sessions.write().await.insert(Arc::clone(&id), handle);
        Ok((id, WorkerTransport::spawn(worker)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.open.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.open.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        lock(&self.order).retain(|open| open != id);
        self.open.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.open.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.touch(id);
        self.open.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.open.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.open.resume(id, last_event_id).await
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        self.make_room(&id).await;
        self.open.restore_session(id).await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_that_its_client_has_ended_does_not_open_again() {
        let ids = Ids::default();
        assert!(ids.load("1").await.unwrap().is_some());
        ids.delete("1").await.unwrap();
        assert!(ids.load("1").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_session_that_was_used_longest_ago_is_closed_for_a_new_one() {
        let sessions = Sessions::new();
        let (first, _transport) = sessions.create_session().await.unwrap();
        let (second, _transport) = sessions.create_session().await.unwrap();
        let mut transports = Vec::new();
        for _ in 2..MAX_SESSIONS {
            transports.push(sessions.create_session().await.unwrap());
        }
        sessions.touch(&first);
        transports.push(sessions.create_session().await.unwrap());
        assert!(sessions.has_session(&first).await.unwrap());
        assert!(!sessions.has_session(&second).await.unwrap());
        assert_eq!(sessions.open.sessions.read().await.len(), MAX_SESSIONS);
    }

    #[test]
    fn only_the_most_recent_ends_are_remembered() {
        let mut recent = Recent::default();
        for number in 0..=MAX_REMEMBERED {
            recent.add(&number.to_string());
        }
        assert!(!recent.known.contains("0") && recent.known.contains("1"));
        assert_eq!((recent.known.len(), recent.order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
