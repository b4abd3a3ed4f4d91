//! Where processes that want a connection to the outside wait until sandboxd takes them up.
//!
//! Owns who waits and who is asked. It knows no policy: sandboxd opens the connection or says why not. What waits is
//! told again to whoever comes to be asked, because the one before may have died with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{AcceptConnection, ConnectionUnknown, OutgoingConnection, Via};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;

use super::inner::Inner;
use super::proxy::Client;
use super::refusal::{Refusal, Why};
use crate::limits::{MAX_HOST_BYTES, NOBODY_TO_ASK, PROXY_HEAD, TAKE_UP};

/// What a process wants to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) via: Via,
}

impl Wish {
    /// Refuses what no program means: everything else is for sandboxd to judge.
    pub(crate) fn new(host: &str, port: u16, via: Via) -> Result<Self, Refusal> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let has_foreign = host.chars().any(|char| char.is_control() || char.is_whitespace());
        if host.is_empty() || host.len() > MAX_HOST_BYTES || has_foreign || port == 0 {
            return Err(Why::Invalid.into());
        }
        Ok(Self { host: host.to_owned(), port, via })
    }

    /// Host and port, as a URL has them.
    pub(crate) fn target(&self) -> String {
        match &self.host {
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

/// The sandbox's end of a connection that sandboxd has opened.
#[derive(Debug)]
pub(crate) enum NearEnd {
    /// A client's own socket, and what it has sent already.
    Client(Client, Bytes),
    /// The proxy's HTTP, which speaks for a client.
    Inner(Inner),
}

/// A connection that is open, and waits for the end it is carried to. To drop it is to hang up.
#[derive(Debug)]
pub(crate) struct Granted(oneshot::Sender<NearEnd>);

impl Granted {
    pub(crate) fn hand_over(self, end: NearEnd) {
        // Nobody is there to take it: sandboxd has hung up, and so does the drop.
        let _ = self.0.send(end);
    }
}

#[derive(Debug)]
struct Waiting {
    wish: Wish,
    verdict: oneshot::Sender<Result<Granted, Refusal>>,
}

#[derive(Debug, Default)]
struct Book {
    last_id: u64,
    by_id: BTreeMap<u64, Waiting>,
}

/// How long processes wait, and are waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// With a client's head.
    pub(crate) head: Duration,
    /// With nobody to ask.
    pub(crate) nobody: Duration,
    /// With whoever is asked.
    pub(crate) verdict: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: PROXY_HEAD, nobody: NOBODY_TO_ASK, verdict: TAKE_UP }
    }
}

/// See the module. As many wait as the proxy has clients.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(super) patience: Patience,
    book: Mutex<Book>,
    /// Somebody began to wait, or to be asked.
    changed: Notify,
    /// The call that is asked; calls are counted.
    asked: watch::Sender<Option<u64>>,
}

impl Desk {
    pub(crate) fn new(patience: Patience) -> Arc<Self> {
        let (asked, _) = watch::channel(None);
        Arc::new(Self { patience, book: Mutex::default(), changed: Notify::new(), asked })
    }

    /// Asks sandboxd for a connection. To drop the future is to want it no more.
    pub(crate) async fn ask(&self, wish: &Wish) -> Result<Granted, Refusal> {
        let (verdict, heard) = oneshot::channel();
        let _place = self.enter(wish.clone(), verdict);
        let mut asked = self.asked.subscribe();
        if timeout(self.patience.nobody, asked.wait_for(Option::is_some)).await.is_err() {
            return Err(Why::Nobody.into());
        }
        match timeout(self.patience.verdict, heard).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(_)) => Err(Why::Nobody.into()),
            Err(_) => Err(Why::Timeout.into()),
        }
    }

    /// What is and will be wanted, until somebody else asks the same.
    pub(crate) fn wanted(self: &Arc<Self>) -> impl Stream<Item = OutgoingConnection> + Send + use<> {
        let call = {
            // Under the lock, so that no two calls take one number.
            let mut book = self.lock();
            book.last_id += 1;
            self.asked.send_replace(Some(book.last_id));
            book.last_id
        };
        self.changed.notify_waiters();
        let asked = Asked { desk: Arc::clone(self), call };
        futures::stream::unfold((asked, 0), |(asked, told)| async move {
            let next = asked.next(told).await?;
            let id = next.id;
            Some((next, (asked, id)))
        })
    }

    /// Tells a process what became of its wish. Where the connection is open, answers with what will bring the
    /// process's end of it, unless the process has gone.
    pub(crate) fn answer(
        &self,
        accept: &AcceptConnection,
    ) -> Result<Option<oneshot::Receiver<NearEnd>>, Kind> {
        let unknown = || Kind::ConnectionUnknown(ConnectionUnknown { id: accept.id });
        let waiting = self.lock().by_id.remove(&accept.id).ok_or_else(unknown)?;
        let (end, taken) = oneshot::channel();
        let (verdict, taken) = match &accept.refused {
            Some(refused) => (Err(Refusal::from_wire(refused)), None),
            None => (Ok(Granted(end)), Some(taken)),
        };
        waiting.verdict.send(verdict).map_err(|_| unknown())?;
        Ok(taken)
    }

    fn enter(&self, wish: Wish, verdict: oneshot::Sender<Result<Granted, Refusal>>) -> Place<'_> {
        let mut book = self.lock();
        book.last_id += 1;
        let id = book.last_id;
        book.by_id.insert(id, Waiting { wish, verdict });
        drop(book);
        self.changed.notify_waiters();
        Place { desk: self, id }
    }

    /// The first that waits behind `told`.
    fn after(&self, told: u64) -> Option<OutgoingConnection> {
        let book = self.lock();
        let (id, Waiting { wish, .. }) = book.by_id.range(told + 1..).next()?;
        Some(OutgoingConnection {
            id: *id,
            host: wish.host.clone(),
            port: wish.port.into(),
            via: wish.via.into(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits; the drop leaves.
struct Place<'a> {
    desk: &'a Desk,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.desk.lock().by_id.remove(&self.id);
    }
}

/// The call that is asked.
struct Asked {
    desk: Arc<Desk>,
    call: u64,
}

impl Asked {
    async fn next(&self, told: u64) -> Option<OutgoingConnection> {
        loop {
            let changed = self.desk.changed.notified();
            if *self.desk.asked.borrow() != Some(self.call) {
                return None;
            }
            if let Some(next) = self.desk.after(told) {
                return Some(next);
            }
            changed.await;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.desk.asked.send_if_modified(|asked| {
            let is_ours = *asked == Some(self.call);
            if is_ours {
                *asked = None;
            }
            is_ours
        });
    }
}
