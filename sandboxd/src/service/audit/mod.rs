//! The audit record: who did what that matters for security, and how it ended.
//!
//! An act has two lines. The first is written before the act is done, and the act is refused if it cannot be. The second has
//! the outcome, and is written before the answer. A daemon that is killed in between leaves the first one alone. So no act
//! happens without a line. What the daemon does by itself and cannot refuse has one line, which waits in memory while the
//! record cannot be written. Refusals that can come in any number are counted, and recorded once a minute.
//!
//! Other components begin acts of the daemon. Those of requests are begun by the API, for all routes in one place.

mod commands;
mod list;
mod owned;
mod recorder;
mod refusals;
mod upkeep;
mod visits;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox_api::SandboxId;
use tokio::task::spawn_blocking;
use tracing::{error, info};

pub use self::list::{AuditFilter, AuditLine, AuditPage};
use self::owned::of_owner;
pub use self::recorder::Recorder;
use self::refusals::Refusals;
use self::visits::{Opened, Visits};
use super::{Context, Error};
use crate::audit::{self, Entry, Head, Key, Options, Record};
use crate::model::audit::{Act, AuditSettings};
use crate::model::echo::cut;
use crate::model::files::FilePath;
use crate::model::preview::LinkRecord;
use crate::model::{Instance, Owner, limits};
use crate::store::Store;

/// Writes the audit record.
#[derive(Debug)]
pub struct Audit {
    record: Arc<Record>,
    settings: AuditSettings,
    instance: Arc<Instance>,
    store: Arc<Store>,
    refusals: Refusals,
    visits: Visits,
    /// Whether the last line could not be written.
    is_failing: AtomicBool,
}

impl Audit {
    pub(in crate::service) async fn new(context: &Context) -> Result<Self, Error> {
        let settings = context.setup.audit.clone();
        let stored = context.store.audit_head().await?;
        let stored = stored.and_then(|head| Some(Head { seq: head.seq, mac: head.mac.parse().ok()? }));
        let options = Options {
            max_file_bytes: limits::MAX_AUDIT_FILE_BYTES,
            kept_files: kept_files(&settings),
            reserve_bytes: limits::AUDIT_RESERVE_BYTES,
        };
        let key = Key::new(context.instance.audit_key());
        let dir = settings.dir.clone();
        let open = spawn_blocking(move || Record::open(&dir, key, options, stored));
        let record = open.await.map_err(|source| Error::Task { source })??;
        let audit = Self {
            record: Arc::new(record),
            settings,
            instance: Arc::clone(&context.instance),
            store: Arc::clone(&context.store),
            refusals: Refusals::default(),
            visits: Visits::default(),
            is_failing: AtomicBool::new(false),
        };
        audit.note(Entry::new(Act::DaemonStart.as_str()).with("version", env!("CARGO_PKG_VERSION")));
        Ok(audit)
    }

    /// Records that a visitor opens a link to a preview, unless the visitor did so lately. If this fails, the link must not be
    /// opened.
    pub(in crate::service) fn record_visit(
        &self,
        link: &LinkRecord,
        owner: Option<&Owner>,
        visitor: IpAddr,
    ) -> Result<(), Error> {
        let visit = of_owner(Act::LinkOpen, owner)
            .with("sandboxId", link.sandbox.as_str())
            .with("port", link.port)
            .with("linkId", link.id.as_str())
            .with("peer", visitor);
        let opened = Opened::Preview(link.id.clone());
        self.visits.first(opened, visitor, || self.written(self.record.append(&visit)).map(drop))
    }

    /// Records that the file of a download link is about to be sent, unless the visitor got it lately. If this fails, it must
    /// not be sent.
    pub(in crate::service) fn record_download(
        &self,
        sandbox: &SandboxId,
        owner: &Owner,
        path: &FilePath,
        visitor: IpAddr,
    ) -> Result<(), Error> {
        let shown = String::from_utf8_lossy(&path.0);
        let download = of_owner(Act::DownloadOpen, Some(owner))
            .with("sandboxId", sandbox.as_str())
            .with("path", cut(&shown, limits::MAX_ECHO_BYTES))
            .with("peer", visitor);
        let opened = Opened::File(sandbox.clone(), self.instance.command_mac(&path.0));
        self.visits.first(opened, visitor, || self.written(self.record.append(&download)).map(drop))
    }

    /// Counts a request without a valid token.
    pub fn count_auth_failure(&self, peer: IpAddr) {
        self.refusals.count_auth_failure(peer);
    }

    /// Counts a connection of a sandbox that was denied. `host` shows no secret.
    pub(in crate::service) fn count_denial(
        &self,
        sandbox: &SandboxId,
        owner: &Owner,
        host: &str,
        port: u16,
        reason: sandbox_api::network::DenialReason,
    ) {
        self.refusals.count_denial(sandbox, owner, host, port, reason);
    }

    /// Writes a line of an act that is about to be done, and makes it durable if the act needs that.
    async fn begin(&self, act: Act, entry: &Entry) -> Result<u64, Error> {
        let appended = match act.frees() {
            true => self.record.append_freeing(entry),
            false => self.record.append(entry),
        };
        let seq = self.written(appended)?;
        if act.is_synced() {
            self.sync().await?;
        }
        Ok(seq)
    }

    /// Writes a line of something that has happened.
    fn note(&self, entry: Entry) {
        // The line waits, and the error is logged.
        let _ = self.written(self.record.note(entry));
    }

    /// Makes all lines durable.
    async fn sync(&self) -> Result<Head, Error> {
        let record = Arc::clone(&self.record);
        let synced = spawn_blocking(move || record.sync()).await.map_err(|source| Error::Task { source })?;
        self.written(synced)
    }

    /// Removes files that the operator does not keep any more.
    async fn remove_old(&self) {
        let record = Arc::clone(&self.record);
        let removed = spawn_blocking(move || record.remove_old()).await;
        let removed = removed.map_err(|source| Error::Task { source }).and_then(|done| self.written(done));
        // An error of the record is logged once, and the next call tries again.
        drop(removed);
    }

    /// Logs when the record cannot be written, and when it can be again.
    fn written<T>(&self, done: Result<T, audit::Error>) -> Result<T, Error> {
        match &done {
            Err(cause) if !self.is_failing.swap(true, Ordering::Relaxed) => {
                error!(
                    error = cause as &dyn std::error::Error,
                    "the audit record cannot be written; acts that must be in it are refused"
                );
            }
            // Not after a line that took the place of the reserve.
            Ok(_) if self.is_failing.load(Ordering::Relaxed) && self.record.is_well() => {
                self.is_failing.store(false, Ordering::Relaxed);
                info!("the audit record is written again");
            }
            Ok(_) | Err(_) => {}
        }
        Ok(done?)
    }
}

/// Number of files that fit into the size that the operator keeps, at least two.
fn kept_files(settings: &AuditSettings) -> u64 {
    match settings.kept_bytes {
        0 => 0,
        bytes => (bytes / limits::MAX_AUDIT_FILE_BYTES).max(2),
    }
}
