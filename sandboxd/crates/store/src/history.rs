//! Writes the history of commands: a queue, and one task that writes the queued entries in batches.
//!
//! The history never delays a command and never fails one. An entry that does not fit into the queue is dropped
//! and counted. A daemon that is killed loses the entries in the queue. The task waits a moment before it writes, so that
//! a command's start and end, and commands that follow each other, take one transaction.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_api::{CommandId, SandboxId};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::age::Age;
use super::backend::{Backend, Change};
use sandboxd_model::context::ContextEntry;
use sandboxd_model::{CommandRecord, Ended, limits};

/// Maximum number of entries in one transaction, so that other writers get their turn.
const MAX_BATCH: usize = 512;

/// An entry of the queue.
#[derive(Debug)]
enum Entry {
    Change(Box<Change>),
    /// Answered when everything before it is written, or dropped if that fails.
    Flush(oneshot::Sender<()>),
}

/// A handle to the history. Clones share one queue.
#[derive(Debug, Clone)]
pub struct History {
    queue: mpsc::Sender<Entry>,
    /// Notified when a flush is in the queue.
    flushing: Arc<Notify>,
    dropped: Arc<AtomicU64>,
    /// See [`Self::was_dropped`].
    known_dropped: Arc<AtomicU64>,
}

impl History {
    /// Starts the task that writes the history. It ends with the last handle.
    pub(crate) fn start(database: Arc<dyn Backend>, age: Arc<Age>) -> Self {
        let (queue, entries) = mpsc::channel(limits::MAX_UNWRITTEN_COMMANDS);
        let (dropped, flushing) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let writer = Writer { database, age, flushing: Arc::clone(&flushing), dropped: Arc::clone(&dropped) };
        tokio::spawn(writer.run(entries));
        Self { queue, flushing, dropped, known_dropped: Arc::default() }
    }

    /// Records that a command has started, and its end if the record has one.
    pub fn started(&self, record: CommandRecord) {
        self.record(Change::Started(record));
    }

    /// Records how a command ended. Has no effect if its start was never recorded.
    pub fn ended(&self, sandbox: &SandboxId, id: &CommandId, ended: Ended) {
        self.record(Change::Ended(sandbox.clone(), id.clone(), ended));
    }

    /// Records a run or a call of a tool that has ended.
    pub fn in_context(&self, record: CommandRecord, entry: ContextEntry) {
        self.record(Change::InContext(record, entry));
    }

    /// Number of starts and ends that were dropped since the daemon started.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether something was dropped since the last call.
    pub fn was_dropped(&self) -> bool {
        let dropped = self.dropped();
        self.known_dropped.swap(dropped, Ordering::Relaxed) != dropped
    }

    /// Waits until everything recorded before is written, for at most [`limits::HISTORY_FLUSH`]. Returns whether
    /// it is written.
    pub async fn flush(&self) -> bool {
        let (done, written) = oneshot::channel();
        let flush = async {
            let is_queued = self.queue.send(Entry::Flush(done)).await.is_ok();
            self.flushing.notify_one();
            is_queued && written.await.is_ok()
        };
        timeout(limits::HISTORY_FLUSH, flush).await.unwrap_or(false)
    }

    fn record(&self, change: Change) {
        if self.queue.try_send(Entry::Change(Box::new(change))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The task that writes the entries.
#[derive(Debug)]
struct Writer {
    database: Arc<dyn Backend>,
    age: Arc<Age>,
    flushing: Arc<Notify>,
    dropped: Arc<AtomicU64>,
}

impl Writer {
    async fn run(self, mut entries: mpsc::Receiver<Entry>) {
        let mut received = Vec::with_capacity(MAX_BATCH);
        while entries.recv_many(&mut received, MAX_BATCH).await > 0 {
            if self.has_time(&received, &entries) {
                // Not by the arrival of entries: each would wake this task.
                let _ = timeout(limits::HISTORY_PAUSE, self.flushing.notified()).await;
                while received.len() < MAX_BATCH
                    && let Ok(entry) = entries.try_recv()
                {
                    received.push(entry);
                }
            }
            self.write(&mut received).await;
        }
    }

    /// Whether more may be awaited: no caller waits, and entries are not lost meanwhile.
    fn has_time(&self, received: &[Entry], entries: &mpsc::Receiver<Entry>) -> bool {
        received.len() < MAX_BATCH
            && !entries.is_closed()
            && received.iter().all(|entry| matches!(entry, Entry::Change(_)))
    }

    async fn write(&self, received: &mut Vec<Entry>) {
        let mut batch = Batch::default();
        let mut flushes = Vec::new();
        for entry in received.drain(..) {
            match entry {
                Entry::Change(change) => batch.add(*change),
                Entry::Flush(done) => flushes.push(done),
            }
        }
        if batch.write(&*self.database, &self.age, &mut flushes).await {
            for done in flushes {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        } else {
            self.dropped.fetch_add(batch.recorded, Ordering::Relaxed);
        }
    }
}

/// The changes of one transaction, in order.
#[derive(Debug, Default)]
struct Batch {
    changes: Vec<Change>,
    /// Index of a command's start in the changes.
    started: HashMap<(SandboxId, CommandId), usize>,
    /// Number of starts and ends, before merging.
    recorded: u64,
}

impl Batch {
    fn add(&mut self, change: Change) {
        match change {
            Change::Started(record) => self.started(record),
            Change::Ended(sandbox, id, ended) => self.ended(sandbox, id, ended),
            Change::InContext(..) => {
                self.recorded += 1;
                self.changes.push(change);
            }
        }
    }

    fn started(&mut self, record: CommandRecord) {
        self.recorded += 1;
        self.started.insert((record.sandbox.clone(), record.id.clone()), self.changes.len());
        self.changes.push(Change::Started(record));
    }

    /// Merges the end of a command with its start, if the start is in this batch.
    fn ended(&mut self, sandbox: SandboxId, id: CommandId, ended: Ended) {
        self.recorded += 1;
        let key = (sandbox, id);
        let start = self.started.get(&key).and_then(|index| self.changes.get_mut(*index));
        match start {
            Some(Change::Started(record)) => record.ended = Some(ended),
            _ => self.changes.push(Change::Ended(key.0, key.1, ended)),
        }
    }

    /// Writes the changes, and retries while the database is unavailable. The queue keeps what arrives meanwhile.
    /// Pending flushes end at once, because no caller should wait for a database that is unavailable.
    async fn write(&self, database: &dyn Backend, age: &Age, flushes: &mut Vec<oneshot::Sender<()>>) -> bool {
        let mut is_waiting = false;
        while !self.changes.is_empty() {
            match database.write_history(&self.changes, age.get_ms()).await {
                Ok(()) => break,
                Err(error) if error.is_unavailable() => {
                    if !is_waiting {
                        warn!(
                            error = &error as &dyn std::error::Error,
                            "the command history waits for the database"
                        );
                    }
                    is_waiting = true;
                    flushes.clear();
                    sleep(limits::HISTORY_RETRY).await;
                }
                Err(error) => {
                    let changes = self.changes.len();
                    warn!(error = &error as &dyn std::error::Error, changes, "command history is lost");
                    return false;
                }
            }
        }
        if is_waiting {
            info!("the command history is written again");
        }
        true
    }
}
