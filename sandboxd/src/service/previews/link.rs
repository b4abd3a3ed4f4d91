//! Links to previews, and the index that finds them by id and by token.
//!
//! A link is looked up by the digest of its token, so that the time of a lookup reveals nothing about the token.
//! `link_lifecycle.rs` creates and ends links.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sandbox_api::port::LinkStyle;
use sandbox_api::{LinkId, SandboxId, TokenId};
use sha2::{Digest, Sha256};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::model::preview::{LinkEnd, LinkRecord, PreviewToken};
use crate::service::clock::now_ms;
use crate::service::quotas::Charge;

/// A link to a port of a sandbox.
#[derive(Debug)]
pub struct Link {
    record: LinkRecord,
    token: PreviewToken,
    pub(super) end: OnceLock<(LinkEnd, i64)>,
    /// Cancelled when the link ends.
    ended: CancellationToken,
    /// Cancelled when the link's own port must be closed.
    close_requested: CancellationToken,
    /// Cancelled when the link's own port is closed.
    port_closed: CancellationToken,
    pub(super) has_listener: AtomicBool,
    /// What the project is charged while the link is valid.
    charge: Mutex<Option<Charge>>,
}

impl Link {
    pub(super) fn new(record: LinkRecord, token: PreviewToken, charge: Option<Charge>) -> Arc<Self> {
        let end = record.ended.map_or_else(OnceLock::new, OnceLock::from);
        let link = Self {
            record,
            token,
            end,
            ended: CancellationToken::new(),
            close_requested: CancellationToken::new(),
            port_closed: CancellationToken::new(),
            has_listener: AtomicBool::new(false),
            charge: Mutex::new(charge),
        };
        if link.record.ended.is_some() {
            link.ended.cancel();
        }
        Arc::new(link)
    }

    /// The stored record.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// The token that gives access.
    pub fn token(&self) -> &PreviewToken {
        &self.token
    }

    /// Why the link has ended. `None` while it is valid.
    pub fn end(&self) -> Option<LinkEnd> {
        let is_late = self.record.expires_at_ms.is_some_and(|at| at <= now_ms());
        self.end.get().map(|(end, _)| *end).or(is_late.then_some(LinkEnd::Expired))
    }

    /// Resolves when the link ends. An expired link ends up to [`limits::UPKEEP_INTERVAL`] late.
    pub fn ended(&self) -> WaitForCancellationFutureOwned {
        self.ended.clone().cancelled_owned()
    }

    /// Resolves when the link's own port must be closed, a while after its end. Until then, visitors see why it ended.
    pub fn closing(&self) -> WaitForCancellationFutureOwned {
        self.close_requested.clone().cancelled_owned()
    }

    /// Records that the link's own port is closed.
    pub fn mark_port_closed(&self) {
        self.port_closed.cancel();
    }

    pub(super) fn close_port(&self) {
        self.close_requested.cancel();
    }

    pub(super) fn port_is_closing(&self) -> bool {
        self.close_requested.is_cancelled()
    }

    pub(super) fn port_closed(&self) -> WaitForCancellationFutureOwned {
        self.port_closed.clone().cancelled_owned()
    }

    pub(super) fn ended_at_ms(&self) -> Option<i64> {
        self.end.get().map(|(_, at_ms)| *at_ms)
    }

    /// Ends the link. The first reason counts.
    pub(super) fn finish(&self, end: LinkEnd, at_ms: i64) {
        let _ = self.end.set((end, at_ms));
        drop(self.charge.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.ended.cancel();
    }
}

/// Options of a new link.
#[derive(Debug, Clone, Default)]
pub struct LinkRequest {
    /// Validity. `None` is as long as the sandbox exists.
    pub ttl: Option<Duration>,
    /// Host name or port. `None` is the daemon's setting.
    pub style: Option<LinkStyle>,
    /// The project token of the request. The link ends with it.
    pub token: Option<TokenId>,
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct LinkIndex {
    index: Mutex<Index>,
    /// Locked while a link is created, so that concurrent requests do not create two default links.
    pub(super) creation: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    by_id: BTreeMap<LinkId, Arc<Link>>,
    by_token: HashMap<[u8; 32], LinkId>,
}

impl LinkIndex {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.lock().by_id.values().cloned().collect()
    }

    pub(super) fn of_token(&self, token: &PreviewToken) -> Option<Arc<Link>> {
        let index = self.lock();
        index.by_token.get(&digest(token)).and_then(|id| index.by_id.get(id)).cloned()
    }

    /// Valid links of a sandbox, the newest last.
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
