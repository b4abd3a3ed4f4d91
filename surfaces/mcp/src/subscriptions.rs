//! Subscriptions to changes of resources.
//!
//! A client of the revision 2026-07-28 sends `subscriptions/listen`, and the response's stream has the changes. Clients
//! of older revisions send `resources/subscribe` in a session, and get the changes on the session's stream.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use rmcp::RoleServer;
use rmcp::model::{PingRequest, ResourceUpdatedNotificationParam, ServerRequest};
use rmcp::service::{Peer, SubscriptionSink};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbox::{Namespace, ResourceWatch, Toolbox};

/// Maximum number of resources in a session, or in a request to listen.
pub(crate) const MAX_RESOURCES: usize = 32;

/// Maximum number of watches of all clients. For a further one, the oldest ends.
const MAX_WATCHES: usize = 256;

/// Maximum number of watches of one token, with all users behind it, likewise.
const MAX_WATCHES_OF_CLIENT: usize = 64;

/// Time in which several changes are reported as one.
const GATHER: Duration = Duration::from_millis(500);

/// Time before a watch that has ended is tried again. It doubles up to the maximum.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Time between two checks whether the client of a session is still there. Below the time after which an idle session is
/// closed.
const CHECK: Duration = Duration::from_secs(120);

/// Time in which the client must answer a check, or take a notification.
const ANSWER: Duration = Duration::from_secs(60);

/// The watches of all clients, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<VecDeque<Watch>>>);

#[derive(Debug)]
struct Watch {
    /// See [`Namespace::client`].
    client: String,
    token: CancellationToken,
}

impl Watches {
    /// Registers a watch. It ends when the token is cancelled, and must cancel the token when it ends.
    fn register(&self, namespace: &Namespace) -> CancellationToken {
        let token = CancellationToken::new();
        let mut open = lock(&self.0);
        open.retain(|watch| !watch.token.is_cancelled());
        let is_own = |watch: &Watch| watch.client == namespace.client();
        let oldest = if open.iter().filter(|watch| is_own(watch)).count() >= MAX_WATCHES_OF_CLIENT {
            open.iter().position(is_own)
        } else {
            (open.len() >= MAX_WATCHES).then_some(0)
        };
        if let Some(oldest) = oldest.and_then(|at| open.remove(at)) {
            oldest.token.cancel();
        }
        open.push_back(Watch { client: namespace.client().to_owned(), token: token.clone() });
        token
    }
}

/// Gets the changes of a resource.
#[derive(Debug, Clone)]
pub(crate) enum Listener {
    /// The client of a connection.
    Client(Peer<RoleServer>),
    /// The client of an HTTP session, which may leave without a word.
    Session(Peer<RoleServer>),
    /// The client of one request.
    Request(SubscriptionSink),
}

impl Listener {
    /// Whether the client has got the notification.
    async fn notify(&self, uri: &str) -> bool {
        let sent = async {
            match self {
                Self::Client(peer) | Self::Session(peer) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok()
                }
                Self::Request(sink) => sink.notify_resource_updated(uri).await.is_ok(),
            }
        };
        timeout(ANSWER, sent).await.unwrap_or(false)
    }

    /// Returns when the client has left. The check also keeps the session open.
    async fn left(&self) {
        let Self::Session(peer) = self else { return std::future::pending().await };
        loop {
            sleep(CHECK).await;
            let ping = PingRequest { method: Default::default(), extensions: Default::default() };
            let answer = timeout(ANSWER, peer.send_request(ServerRequest::PingRequest(ping))).await;
            if !matches!(answer, Ok(Ok(_))) {
                return;
            }
        }
    }
}

/// The subscriptions of one session. Dropping it ends them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, (CancellationToken, DropGuard)>>);

/// The session has as many subscriptions as it may have.
#[derive(Debug, thiserror::Error)]
#[error("a session has up to {MAX_RESOURCES} subscriptions: end one with `resources/unsubscribe`")]
pub(crate) struct TooMany;

impl Subscriptions {
    /// Whether there is room for a subscription to the resource, or there is one already.
    pub(crate) fn check(&self, uri: &str) -> Result<(), TooMany> {
        let mut open = lock(&self.0);
        open.retain(|_, (token, _)| !token.is_cancelled());
        if open.len() >= MAX_RESOURCES && !open.contains_key(uri) { Err(TooMany) } else { Ok(()) }
    }

    /// Reports the changes of a resource until the subscription ends. Replaces an earlier subscription to it.
    pub(crate) fn start(
        &self,
        watches: &Watches,
        followed: Followed,
        listener: Listener,
    ) -> Result<(), TooMany> {
        self.check(&followed.uri)?;
        let token = watches.register(followed.toolbox.namespace());
        let guard = token.clone().drop_guard();
        lock(&self.0).insert(followed.uri.clone(), (token.clone(), guard));
        tokio::spawn(follow(followed, listener, token));
        Ok(())
    }

    pub(crate) fn end(&self, uri: &str) {
        lock(&self.0).remove(uri);
    }
}

/// A resource that is watched.
pub(crate) struct Followed {
    pub(crate) uri: String,
    pub(crate) toolbox: Toolbox,
    pub(crate) watch: ResourceWatch,
}

/// Reports changes of all resources until the request ends. The request was acknowledged before the watches began, so
/// each resource is reported once at first: it may have changed in between.
pub(crate) async fn listen(watches: &Watches, resources: Vec<Followed>, sink: &SubscriptionSink) {
    let followed = resources.into_iter().map(|resource| async move {
        let listener = Listener::Request(sink.clone());
        let token = watches.register(resource.toolbox.namespace());
        let _ended = token.clone().drop_guard();
        if listener.notify(&resource.uri).await {
            follow(resource, listener, token).await;
        }
    });
    futures::future::join_all(followed).await;
}

/// Reports the changes of a resource until the client leaves, the token is cancelled, or the sandbox is deleted.
async fn follow(mut followed: Followed, listener: Listener, token: CancellationToken) {
    let _ended = token.clone().drop_guard();
    tokio::select! {
        () = token.cancelled() => {}
        () = listener.left() => {}
        () = report(&mut followed, &listener) => {}
    }
}

async fn report(followed: &mut Followed, listener: &Listener) {
    loop {
        while followed.watch.changed().await.is_some() {
            sleep(GATHER).await;
            while let Some(Some(())) = followed.watch.changed().now_or_never() {}
            if !listener.notify(&followed.uri).await {
                return;
            }
        }
        let again = watch_again(&followed.toolbox, &followed.uri).await;
        // It may have changed in between, or is gone.
        let is_notified = listener.notify(&followed.uri).await;
        match again.filter(|_| is_notified) {
            Some(watch) => followed.watch = watch,
            None => return,
        }
    }
}

/// Waits until the resource can be watched again, such as after its sandbox was parked and woken. `None` if its sandbox
/// is deleted.
async fn watch_again(toolbox: &Toolbox, uri: &str) -> Option<ResourceWatch> {
    let mut pause = RETRY;
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(MAX_RETRY);
        match toolbox.watch_resource(uri).await {
            Ok(Some(watch)) if watch.is_active() => return Some(watch),
            // Parked, its directory is missing, or the daemon restarts.
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => return None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_watch_ends_for_a_new_one() {
        let watches = Watches::default();
        let namespace = |number: usize| Namespace::new(&format!("t{number}")).unwrap();
        let tokens: Vec<_> =
            (0..MAX_WATCHES).map(|number| watches.register(&namespace(number / 32))).collect();
        // One that has ended makes room.
        tokens[7].cancel();
        let another = watches.register(&namespace(99));
        assert!(!tokens[0].is_cancelled());
        watches.register(&namespace(99));
        assert!(tokens[0].is_cancelled() && !tokens[1].is_cancelled() && !another.is_cancelled());
        assert_eq!(lock(&watches.0).len(), MAX_WATCHES);
    }

    #[test]
    fn a_client_with_many_watches_ends_its_own() {
        let watches = Watches::default();
        let other = watches.register(&Namespace::new("bob").unwrap());
        // The client chooses the ids of its users.
        let user = |number: usize| Namespace::for_user("ann", &format!("user {number}")).unwrap();
        let own: Vec<_> =
            (0..2 * MAX_WATCHES_OF_CLIENT).map(|number| watches.register(&user(number))).collect();
        assert!(!other.is_cancelled());
        let open = own.iter().filter(|token| !token.is_cancelled()).count();
        assert_eq!(open, MAX_WATCHES_OF_CLIENT);
        assert!(own[0].is_cancelled() && !own[MAX_WATCHES_OF_CLIENT].is_cancelled());
    }
}
