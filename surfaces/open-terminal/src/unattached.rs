//! Ends terminals that no viewer is attached to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_api::sandbox::SandboxState;
use sandbox_client::{Client, Error as ClientError};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::address::{Address, is_gone};

/// How long a terminal runs without a viewer.
const UNATTACHED: Duration = Duration::from_secs(60);

/// Pause before another attempt to end a terminal.
const RETRY: Duration = Duration::from_secs(10);

/// Number of viewers of each terminal that this surface has opened or attached to.
#[derive(Debug, Clone)]
pub(crate) struct Attachments {
    viewers: Arc<Mutex<HashMap<Address, watch::Sender<usize>>>>,
    shutdown: CancellationToken,
}

/// A viewer of a terminal. Dropping it ends the attachment.
#[derive(Debug)]
pub(crate) struct Attachment(watch::Sender<usize>);

impl Drop for Attachment {
    fn drop(&mut self) {
        self.0.send_modify(|viewers| *viewers -= 1);
    }
}

impl Attachments {
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self { viewers: Arc::default(), shutdown }
    }

    /// Ends the terminal when it has had no viewer for a while.
    pub(crate) fn watch(&self, address: &Address, client: &Client) {
        self.add(address, client, 0);
    }

    /// Registers a viewer.
    pub(crate) fn attach(&self, address: &Address, client: &Client) -> Attachment {
        Attachment(self.add(address, client, 1))
    }

    /// Stops watching a terminal that has ended.
    pub(crate) fn forget(&self, address: &Address) {
        lock(&self.viewers).remove(address);
    }

    fn add(&self, address: &Address, client: &Client, count: usize) -> watch::Sender<usize> {
        let mut all = lock(&self.viewers);
        let viewers = all.entry(address.clone()).or_insert_with(|| {
            let viewers = watch::Sender::new(0);
            let watching = self.clone().end_unattached(address.clone(), client.clone(), viewers.subscribe());
            tokio::spawn(watching);
            viewers
        });
        viewers.send_modify(|viewers| *viewers += count);
        viewers.clone()
    }

    async fn end_unattached(self, address: Address, client: Client, mut viewers: watch::Receiver<usize>) {
        let ended = async {
            while !self.is_abandoned(&address, &mut viewers).await {}
            while let Err(error) = end(&client, &address).await
                && !is_gone(&error)
            {
                sleep(RETRY).await;
            }
        };
        tokio::select! {
            () = ended => {}
            // The terminal keeps running. If no viewer comes after the restart, it ends with its container.
            () = self.shutdown.cancelled() => {}
        }
    }

    /// Waits for the last viewer to leave, and then for another one. Returns whether none came.
    async fn is_abandoned(&self, address: &Address, viewers: &mut watch::Receiver<usize>) -> bool {
        // The sender is in the map, unless the terminal was closed.
        if viewers.wait_for(|viewers| *viewers == 0).await.is_err() {
            return true;
        }
        if let Ok(Ok(_)) = timeout(UNATTACHED, viewers.wait_for(|viewers| *viewers > 0)).await {
            return false;
        }
        // Under the lock, so that no viewer attaches to a terminal that is about to end.
        let mut all = lock(&self.viewers);
        let is_abandoned = *viewers.borrow() == 0;
        if is_abandoned {
            all.remove(address);
        }
        is_abandoned
    }
}

/// Ends a terminal, unless it has ended with its container.
async fn end(client: &Client, address: &Address) -> Result<(), ClientError> {
    match client.get(&address.sandbox).await?.state {
        SandboxState::Running => client.close_terminal(&address.sandbox, &address.terminal).await.map(drop),
        // Another request would wake the sandbox.
        _ => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use http::{Method, Request, Response};
    use sandbox_client::{Body, Connection, Transport, TransportError};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// A daemon whose only sandbox is in this state. It counts the terminals that are closed.
    #[derive(Debug)]
    struct Fake {
        state: &'static str,
        closed: watch::Sender<usize>,
    }

    impl Transport for Fake {
        fn send(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
            let sandbox = json!({
                "sandboxId": "sbx_0123456789abcdef", "sessionKey": "mcp:admin:ann:host:1", "state": self.state,
                "runtime": "node24", "image": "", "resources": {}, "network": {}, "ports": [], "envKeys": [],
                "metadata": {}, "createdAt": "2026-01-01T00:00:00Z", "lastActiveAt": "2026-01-01T00:00:00Z",
                "idleTtlMs": 900_000, "expiresAt": null, "runningCommands": 0, "usage": null, "posture": null,
            });
            let is_close = request.method() == Method::DELETE;
            if is_close {
                self.closed.send_modify(|closed| *closed += 1);
            }
            let body = if is_close { json!({ "ok": true }) } else { sandbox };
            async move { Ok(Response::new(Body::from(body.to_string()))) }.boxed()
        }

        fn websocket_base(&self) -> String {
            "ws://localhost".into()
        }

        fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
            async { Err(TransportError::connecting("no connections here")) }.boxed()
        }
    }

    fn client(state: &'static str) -> (Client, watch::Receiver<usize>) {
        let (closed, counted) = watch::channel(0);
        (Client::with_transport(Arc::new(Fake { state, closed }), "token"), counted)
    }

    fn address() -> Address {
        Address::parse("sbx_0123456789abcdef.trm_0123456789abcdef").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_without_a_viewer_ends() {
        let ((client, mut closed), began) = (client("running"), Instant::now());
        let attachments = Attachments::new(CancellationToken::new());
        attachments.watch(&address(), &client);
        closed.wait_for(|closed| *closed == 1).await.unwrap();
        assert!((UNATTACHED..UNATTACHED + RETRY).contains(&began.elapsed()));
        assert!(lock(&attachments.viewers).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_keeps_a_terminal() {
        let (client, mut closed) = client("running");
        let attachments = Attachments::new(CancellationToken::new());
        attachments.watch(&address(), &client);
        let first = attachments.attach(&address(), &client);
        sleep(10 * UNATTACHED).await;
        let second = attachments.attach(&address(), &client);
        drop(first);
        sleep(10 * UNATTACHED).await;
        drop(second);
        sleep(UNATTACHED / 2).await;
        let third = attachments.attach(&address(), &client);
        sleep(10 * UNATTACHED).await;
        assert_eq!(*closed.borrow(), 0);
        let left = Instant::now();
        drop(third);
        closed.wait_for(|closed| *closed == 1).await.unwrap();
        assert!(left.elapsed() >= UNATTACHED);
    }

    #[tokio::test(start_paused = true)]
    async fn no_sandbox_is_woken_to_end_a_terminal() {
        let (client, closed) = client("parked");
        let attachments = Attachments::new(CancellationToken::new());
        attachments.watch(&address(), &client);
        sleep(10 * UNATTACHED).await;
        assert_eq!(*closed.borrow(), 0);
        assert!(lock(&attachments.viewers).is_empty());
    }
}
