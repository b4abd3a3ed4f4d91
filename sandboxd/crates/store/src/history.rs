//! The way of the commands' history into the store: a queue, and one task that writes what has gathered.
//!
//! History never holds a command back and never fails one. What does not fit into the queue is dropped and
//! counted; a daemon that is killed loses what is still in it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_api::{CommandId, SandboxId};
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::commands::{write_ended, write_started};
use super::database::Database;
use sandboxd_model::{CommandRecord, Ended, limits};

/// What one transaction writes at most, so that others get their turn with the one writer.
const MAX_BATCH: usize = 512;

/// A command's start or end on its way to the store.
#[derive(Debug)]
enum Entry {
    Started(CommandRecord),
    Ended(SandboxId, CommandId, Ended),
    /// Answered once everything before it is written, or dropped if that fails.
    Flush(oneshot::Sender<()>),
}

/// The way into the history; clones lead to the same queue.
#[derive(Debug, Clone)]
pub struct History {
    queue: mpsc::Sender<Entry>,
    dropped: Arc<AtomicU64>,
    /// See [`Self::was_dropped`].
    known_dropped: Arc<AtomicU64>,
}

impl History {
    /// The history of `db` and the task that writes it, which ends with the last handle.
    pub(super) fn start(db: Arc<Database>) -> Self {
        let (queue, entries) = mpsc::channel(limits::MAX_UNWRITTEN_COMMANDS);
        let dropped = Arc::new(AtomicU64::new(0));
        tokio::spawn(write_all(db, entries, Arc::clone(&dropped)));
        Self { queue, dropped, known_dropped: Arc::default() }
    }

    /// Notes that a command has started. Its end, where the record has one, is noted with it.
    pub fn started(&self, record: CommandRecord) {
        self.note(Entry::Started(record));
    }

    /// Notes how a command ended. Means nothing for one whose start was never noted.
    pub fn ended(&self, sandbox: &SandboxId, id: &CommandId, ended: Ended) {
        self.note(Entry::Ended(sandbox.clone(), id.clone(), ended));
    }

    /// Starts and ends that were never written, since the daemon started.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether something was dropped since this was last called.
    pub fn was_dropped(&self) -> bool {
        let dropped = self.dropped();
        self.known_dropped.swap(dropped, Ordering::Relaxed) != dropped
    }

    /// Waits until what was noted before is written, for at most [`limits::HISTORY_FLUSH`]; says whether it is.
    pub async fn flush(&self) -> bool {
        let (done, written) = oneshot::channel();
        let flush = async { self.queue.send(Entry::Flush(done)).await.is_ok() && written.await.is_ok() };
        timeout(limits::HISTORY_FLUSH, flush).await.unwrap_or(false)
    }

    fn note(&self, entry: Entry) {
        if self.queue.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn write_all(db: Arc<Database>, mut entries: mpsc::Receiver<Entry>, dropped: Arc<AtomicU64>) {
    let mut received = Vec::with_capacity(MAX_BATCH);
    while entries.recv_many(&mut received, MAX_BATCH).await > 0 {
        let mut batch = Batch::default();
        let mut flushes = Vec::new();
        for entry in received.drain(..) {
            match entry {
                Entry::Started(record) => batch.started(record),
                Entry::Ended(sandbox, id, ended) => batch.ended(sandbox, id, ended),
                Entry::Flush(done) => flushes.push(done),
            }
        }
        if batch.write(&db, &mut flushes).await {
            for done in flushes {
                // Its reader may have stopped waiting.
                let _ = done.send(());
            }
        } else {
            dropped.fetch_add(batch.noted, Ordering::Relaxed);
        }
    }
}

/// What one transaction writes, in order.
#[derive(Debug, Default)]
struct Batch {
    rows: Vec<Row>,
    /// Where the start of a command is among the rows.
    started: HashMap<(SandboxId, CommandId), usize>,
    noted: u64,
}

#[derive(Debug)]
enum Row {
    Started(CommandRecord),
    Ended(SandboxId, CommandId, Ended),
}

impl Batch {
    fn started(&mut self, record: CommandRecord) {
        self.noted += 1;
        self.started.insert((record.sandbox.clone(), record.id.clone()), self.rows.len());
        self.rows.push(Row::Started(record));
    }

    /// The end of a command that began in this batch becomes one row with its start.
    fn ended(&mut self, sandbox: SandboxId, id: CommandId, ended: Ended) {
        self.noted += 1;
        let key = (sandbox, id);
        let start = self.started.get(&key).and_then(|place| self.rows.get_mut(*place));
        match start {
            Some(Row::Started(record)) => record.ended = Some(ended),
            _ => self.rows.push(Row::Ended(key.0, key.1, ended)),
        }
    }

    /// Writes it, again and again while the store is away; the queue keeps what comes meanwhile. Nobody waits
    /// for a store that is away.
    async fn write(&self, db: &Database, flushes: &mut Vec<oneshot::Sender<()>>) -> bool {
        let mut is_away = false;
        while !self.rows.is_empty() {
            let input = (&self.rows, db.age_ms());
            match db.write(&input, |conn, (rows, age_ms)| Box::pin(write_rows(conn, rows, *age_ms))).await {
                Ok(()) => break,
                Err(error) if error.is_away() && !db.is_closed() => {
                    if !is_away {
                        warn!(error = &error as &dyn std::error::Error, "history waits for the store");
                    }
                    is_away = true;
                    flushes.clear();
                    sleep(limits::HISTORY_RETRY).await;
                }
                Err(error) => {
                    let rows = self.rows.len();
                    warn!(error = &error as &dyn std::error::Error, rows, "history is lost");
                    return false;
                }
            }
        }
        if is_away {
            info!("history is written again");
        }
        true
    }
}

async fn write_rows(conn: &mut SqliteConnection, rows: &[Row], age_ms: u64) -> Result<(), sqlx::Error> {
    for row in rows {
        match row {
            Row::Started(record) => write_started(record, age_ms, conn).await?,
            Row::Ended(sandbox, id, ended) => write_ended(sandbox, id, ended, age_ms, conn).await?,
        }
    }
    Ok(())
}
