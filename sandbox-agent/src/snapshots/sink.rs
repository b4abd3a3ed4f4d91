//! Names chunks and sends them to the daemon, each once.

use std::collections::HashSet;
use std::time::Instant;

use agent_protocol::v1::{SnapshotChunk, SnapshotEnd, SnapshotPart};
use bytes::Bytes;
use snapshot_format::{Compressor, Hash};
use tokio::sync::mpsc;

use super::Stop;
use super::pace::Pace;
use crate::limits::{MESSAGE_BYTES, SNAPSHOT_HEARTBEAT};

/// Maximum number of chunks that are recorded as sent. Chunks after that may be sent twice.
const MAX_REMEMBERED: usize = 450_000;

/// Bytes of a chunk in a message, besides its data.
const CHUNK_OVERHEAD: usize = 48;

/// Sends chunks in messages of limited size. It waits while the daemon does not read.
pub(crate) struct Sink {
    parts: mpsc::Sender<SnapshotPart>,
    compressor: Compressor,
    /// The first bytes of the hashes that were sent. The daemon notices a chunk that is missing.
    sent: HashSet<u64>,
    waiting: Vec<SnapshotChunk>,
    waiting_bytes: usize,
    /// When the last message was sent.
    last: Instant,
    pace: Pace,
}

impl Sink {
    pub(crate) fn new(parts: mpsc::Sender<SnapshotPart>) -> std::io::Result<Self> {
        let compressor = Compressor::new()?;
        let (sent, waiting, last) = (HashSet::new(), Vec::new(), Instant::now());
        Ok(Self { parts, compressor, sent, waiting, waiting_bytes: 0, last, pace: Pace::new() })
    }

    /// Sends a chunk unless it was sent before. Returns its name.
    pub(super) fn send(&mut self, chunk: &[u8]) -> Result<Hash, Stop> {
        self.send_unless(chunk, |_| false)
    }

    /// Like [`Sink::send`], but does not send a chunk that `is_known` knows.
    pub(super) fn send_unless(
        &mut self,
        chunk: &[u8],
        is_known: impl FnOnce(&Hash) -> bool,
    ) -> Result<Hash, Stop> {
        self.pace.rest_if_due();
        let hash = Hash::of(chunk);
        if !is_known(&hash) && self.is_new(&hash) {
            let data = self.compressor.compress(chunk)?;
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            self.waiting_bytes += data.len() + CHUNK_OVERHEAD;
            let name = Bytes::copy_from_slice(hash.as_bytes());
            self.waiting.push(SnapshotChunk { hash: name, length, data });
            if self.waiting_bytes >= MESSAGE_BYTES {
                self.flush()?;
            }
        }
        Ok(hash)
    }

    fn is_new(&mut self, hash: &Hash) -> bool {
        let short = u64::from_le_bytes(std::array::from_fn(|at| hash.as_bytes()[at]));
        if self.sent.len() < MAX_REMEMBERED { self.sent.insert(short) } else { !self.sent.contains(&short) }
    }

    /// Sends the buffer, even an empty one, if nothing was sent for a while. Most of a walk may find no changes.
    pub(super) fn keep_alive(&mut self) -> Result<(), Stop> {
        self.pace.rest_if_due();
        if self.last.elapsed() < SNAPSHOT_HEARTBEAT { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.waiting_bytes = 0;
        let chunks = std::mem::take(&mut self.waiting);
        self.pass_on(SnapshotPart { chunks, end: None })
    }

    /// Sends the last message.
    pub(super) fn end(&mut self, end: SnapshotEnd) -> Result<(), Stop> {
        let chunks = std::mem::take(&mut self.waiting);
        self.pass_on(SnapshotPart { chunks, end: Some(end) })
    }

    fn pass_on(&mut self, part: SnapshotPart) -> Result<(), Stop> {
        self.last = Instant::now();
        self.parts.blocking_send(part).map_err(|_| Stop::CallerLeft)
    }
}
