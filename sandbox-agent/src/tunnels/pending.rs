//! Outbound connections that wait until sandboxd opens them.
//!
//! One call of sandboxd, the responder, receives all pending requests. This module enforces no policy: sandboxd opens
//! the connection or returns why not. A new responder receives the pending requests again, because the previous one
//! may have failed with them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{AcceptConnection, ConnectionUnknown, OutgoingConnection, Via};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use super::client::Client;
use super::duplex::DuplexSocket;
use super::refusal::{Reason, Refusal};
use crate::limits::{MAX_HOST_BYTES, NO_DAEMON_WAIT, OUTBOUND_OPEN, PROXY_HEAD};

/// The target that a process wants to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboundTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) via: Via,
}

impl OutboundTarget {
    /// Rejects what cannot be a valid target. sandboxd decides about everything else.
    pub(crate) fn new(host: &str, port: u16, via: Via) -> Result<Self, Refusal> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let has_forbidden = host.chars().any(|char| char.is_control() || char.is_whitespace());
        if host.is_empty() || host.len() > MAX_HOST_BYTES || has_forbidden || port == 0 {
            return Err(Reason::Invalid.into());
        }
        Ok(Self { host: host.to_owned(), port, via })
    }

    /// Returns host and port as in a URL.
    pub(crate) fn authority(&self) -> String {
        match &self.host {
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

/// The sandbox's end of a connection that sandboxd has opened.
#[derive(Debug)]
pub(crate) enum NearEnd {
    /// A client's own socket, and the data that it has sent already.
    Client(Client, Bytes),
    /// The proxy's HTTP client, which acts for a client.
    Http(DuplexSocket),
}

/// An open connection that waits for the sandbox's end. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(oneshot::Sender<NearEnd>);

impl OpenConnection {
    pub(crate) fn attach(self, end: NearEnd) {
        // The receiver is gone if sandboxd has closed the connection.
        let _ = self.0.send(end);
    }
}

#[derive(Debug)]
struct Waiting {
    target: OutboundTarget,
    decision: oneshot::Sender<Result<OpenConnection, Refusal>>,
}

#[derive(Debug, Default)]
struct Requests {
    last_id: u64,
    by_id: BTreeMap<u64, Waiting>,
}

/// Time limits of the proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// For a client to send the head of its request.
    pub(crate) head: Duration,
    /// For a responder to connect.
    pub(crate) responder: Duration,
    /// For the responder to decide.
    pub(crate) decision: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { head: PROXY_HEAD, responder: NO_DAEMON_WAIT, decision: OUTBOUND_OPEN }
    }
}

/// The pending connections. The proxy's limit on clients bounds their number.
#[derive(Debug)]
pub(crate) struct PendingConnections {
    pub(super) timeouts: Timeouts,
    requests: Mutex<Requests>,
    /// Notified when a request is added or the responder changes.
    changed: Notify,
    /// Number of the call that is the responder.
    responder: watch::Sender<Option<u64>>,
}

impl PendingConnections {
    pub(crate) fn new(timeouts: Timeouts) -> Arc<Self> {
        let (responder, _) = watch::channel(None);
        Arc::new(Self { timeouts, requests: Mutex::default(), changed: Notify::new(), responder })
    }

    /// Requests a connection from sandboxd. Dropping the future cancels the request.
    pub(crate) async fn request(&self, target: &OutboundTarget) -> Result<OpenConnection, Refusal> {
        let (decision, decided) = oneshot::channel();
        let _pending = self.add(target.clone(), decision);
        let mut responder = self.responder.subscribe();
        if timeout(self.timeouts.responder, responder.wait_for(Option::is_some)).await.is_err() {
            return Err(Reason::NoDaemon.into());
        }
        match timeout(self.timeouts.decision, decided).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(_)) => Err(Reason::NoDaemon.into()),
            Err(_) => Err(Reason::Timeout.into()),
        }
    }

    /// Makes the caller the responder. Returns all pending and future requests until another caller becomes the
    /// responder.
    pub(crate) fn requests_for_responder(
        self: &Arc<Self>,
    ) -> impl Stream<Item = OutgoingConnection> + Send + use<> {
        let call = {
            // Under the lock, so that no two calls get the same number.
            let mut requests = self.lock();
            requests.last_id += 1;
            self.responder.send_replace(Some(requests.last_id));
            requests.last_id
        };
        self.changed.notify_waiters();
        let responder = Responder { pending: Arc::clone(self), call };
        futures::stream::unfold((responder, 0), |(responder, last)| async move {
            let next = responder.next(last).await?;
            let id = next.id;
            Some((next, (responder, id)))
        })
    }

    /// Passes sandboxd's decision to the process. If the connection is open, returns a receiver for the process's end
    /// of it, unless the process is gone.
    pub(crate) fn decide(
        &self,
        accept: &AcceptConnection,
    ) -> Result<Option<oneshot::Receiver<NearEnd>>, Kind> {
        let unknown = || Kind::ConnectionUnknown(ConnectionUnknown { id: accept.id });
        let waiting = self.lock().by_id.remove(&accept.id).ok_or_else(unknown)?;
        let (end, taken) = oneshot::channel();
        let (decision, taken) = match &accept.refused {
            Some(refused) => (Err(Refusal::from_wire(refused)), None),
            None => (Ok(OpenConnection(end)), Some(taken)),
        };
        waiting.decision.send(decision).map_err(|_| unknown())?;
        Ok(taken)
    }

    fn add(
        &self,
        target: OutboundTarget,
        decision: oneshot::Sender<Result<OpenConnection, Refusal>>,
    ) -> PendingRequest<'_> {
        let mut requests = self.lock();
        requests.last_id += 1;
        let id = requests.last_id;
        requests.by_id.insert(id, Waiting { target, decision });
        drop(requests);
        self.changed.notify_waiters();
        PendingRequest { pending: self, id }
    }

    /// Returns the first request after number `last`.
    fn after(&self, last: u64) -> Option<OutgoingConnection> {
        let requests = self.lock();
        let (id, Waiting { target, .. }) = requests.by_id.range(last + 1..).next()?;
        Some(OutgoingConnection {
            id: *id,
            host: target.host.clone(),
            port: target.port.into(),
            via: target.via.into(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pending request. Dropping it removes the request.
struct PendingRequest<'a> {
    pending: &'a PendingConnections,
    id: u64,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.pending.lock().by_id.remove(&self.id);
    }
}

/// The call that receives the requests.
struct Responder {
    pending: Arc<PendingConnections>,
    call: u64,
}

impl Responder {
    async fn next(&self, last: u64) -> Option<OutgoingConnection> {
        loop {
            let changed = self.pending.changed.notified();
            if *self.pending.responder.borrow() != Some(self.call) {
                return None;
            }
            if let Some(next) = self.pending.after(last) {
                return Some(next);
            }
            changed.await;
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.pending.responder.send_if_modified(|responder| {
            let is_ours = *responder == Some(self.call);
            if is_ours {
                *responder = None;
            }
            is_ours
        });
    }
}
