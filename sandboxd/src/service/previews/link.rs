//! Links to previews, and all of them by what they were given.
//!
//! A link is looked up by its token's digest, so that how long a look takes says nothing about the token. What makes and ends links
//! is in `link_lifecycle.rs`.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sandbox_api::port::LinkStyle;
use sandbox_api::{LinkId, SandboxId};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::listeners::{LinkListener, Turns};
use crate::model::limits;
use crate::model::preview::{LinkEnd, LinkRecord, PreviewToken};
use crate::service::clock::now_ms;

/// A link.
#[derive(Debug)]
pub struct Link {
    record: LinkRecord,
    token: PreviewToken,
    pub(super) end: OnceLock<(LinkEnd, i64)>,
    /// Cancelled when it leads nowhere any more.
    over: CancellationToken,
    /// Cancelled when its own port is to be closed, and when that is done.
    shut: CancellationToken,
    free: CancellationToken,
    pub(super) has_listener: AtomicBool,
}

impl Link {
    pub(super) fn new(record: LinkRecord, token: PreviewToken) -> Arc<Self> {
        let end = record.ended.map_or_else(OnceLock::new, OnceLock::from);
        let link = Self {
            record,
            token,
            end,
            over: CancellationToken::new(),
            shut: CancellationToken::new(),
            free: CancellationToken::new(),
            has_listener: AtomicBool::new(false),
        };
        if link.record.ended.is_some() {
            link.over.cancel();
        }
        Arc::new(link)
    }

    /// What it is made from.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// What opens it.
    pub fn token(&self) -> &PreviewToken {
        &self.token
    }

    /// Why it leads nowhere any more, if that is so now.
    pub fn end(&self) -> Option<LinkEnd> {
        let is_late = self.record.expires_at_ms.is_some_and(|at| at <= now_ms());
        self.end.get().map(|(end, _)| *end).or(is_late.then_some(LinkEnd::Expired))
    }

    /// Resolves when it leads nowhere any more: up to [`limits::KEEPER_TICK`] after its time was over.
    pub fn over(&self) -> WaitForCancellationFutureOwned {
        self.over.clone().cancelled_owned()
    }

    /// Resolves when its own port is to be closed: a while after its end, so that who follows it is told.
    pub fn closing(&self) -> WaitForCancellationFutureOwned {
        self.shut.clone().cancelled_owned()
    }

    /// To be called when its own port is closed.
    pub fn port_is_free(&self) {
        self.free.cancel();
    }

    pub(super) fn close_port(&self) {
        self.shut.cancel();
    }

    pub(super) fn port_is_closing(&self) -> bool {
        self.shut.is_cancelled()
    }

    pub(super) fn port_free(&self) -> WaitForCancellationFutureOwned {
        self.free.clone().cancelled_owned()
    }

    pub(super) fn ended_at_ms(&self) -> Option<i64> {
        self.end.get().map(|(_, at_ms)| *at_ms)
    }

    fn finish(&self, end: LinkEnd, at_ms: i64) {
        // The first reason stays.
        let _ = self.end.set((end, at_ms));
        self.over.cancel();
    }
}

/// Options of a new link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkRequest {
    /// How long it is good for; `None` is as long as the sandbox.
    pub ttl: Option<Duration>,
    /// How it is found; `None` is as the daemon is set up.
    pub style: Option<LinkStyle>,
}

/// All links.
#[derive(Debug)]
pub(super) struct LinkIndex {
    index: Mutex<Index>,
    /// Held by the one who makes a link, so that two do not make the same.
    pub(super) making: tokio::sync::Mutex<()>,
    turns: Mutex<Turns>,
    pub(super) doors: mpsc::Sender<LinkListener>,
    pub(super) opened: Mutex<Option<mpsc::Receiver<LinkListener>>>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: BTreeMap<LinkId, Arc<Link>>,
    by_token: HashMap<[u8; 32], LinkId>,
}

impl Default for LinkIndex {
    fn default() -> Self {
        let (doors, opened) = mpsc::channel(limits::MAX_DOORS_ON_THE_WAY);
        Self {
            index: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
            doors,
            opened: Mutex::new(Some(opened)),
        }
    }
}

impl LinkIndex {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn finish(&self, link: &Link, end: LinkEnd, at_ms: i64) {
        link.finish(end, at_ms);
        if let Some(door) = link.record.door {
            self.turns().used(door);
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.lock().by_id.values().cloned().collect()
    }

    pub(super) fn of_token(&self, token: &PreviewToken) -> Option<Arc<Link>> {
        let index = self.lock();
        index.by_token.get(&digest(token)).and_then(|id| index.by_id.get(id)).cloned()
    }

    /// Those of a sandbox that lead there.
    pub(super) fn of(&self, sandbox: &SandboxId) -> Vec<Arc<Link>> {
        let mut links = self.all();
        links.retain(|link| link.record.sandbox == *sandbox && link.end().is_none());
        links.sort_by_key(|link| link.record.created_at_ms);
        links
    }

    pub(super) fn insert(&self, link: &Arc<Link>) {
        let mut index = self.lock();
        index.by_token.insert(digest(&link.token), link.record.id.clone());
        index.by_id.insert(link.record.id.clone(), Arc::clone(link));
    }

    pub(super) fn remove(&self, link: &Link) {
        let mut index = self.lock();
        index.by_token.remove(&digest(&link.token));
        index.by_id.remove(&link.record.id);
    }
}

fn digest(token: &PreviewToken) -> [u8; 32] {
    Sha256::digest(token.expose()).into()
}
