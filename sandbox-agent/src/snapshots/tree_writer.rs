//! Writes the entries of a directory as chunks.

use prost::Message;
use snapshot_format::chunker::next_cut;
use snapshot_format::{Content, ContentBuilder, Entry, Hash, MAX_CHUNK_BYTES, Segment};

use super::Stop;
use super::sink::Sink;

/// The entries of one directory. Most fit into one chunk, which is sent last, when it is known whether it has changed.
#[derive(Debug, Default)]
pub(super) struct TreeWriter {
    waiting: Vec<u8>,
    content: ContentBuilder,
}

impl TreeWriter {
    /// Adds an entry, whose name comes after those before.
    pub(super) fn push(&mut self, entry: &Entry, sink: &mut Sink) -> Result<(), Stop> {
        // Encoding into a vector fails only if there is no memory.
        entry.encode_length_delimited(&mut self.waiting).map_err(std::io::Error::other)?;
        while self.waiting.len() >= MAX_CHUNK_BYTES {
            self.cut(sink, |_| false)?;
        }
        Ok(())
    }

    /// Memory in use, in bytes.
    pub(super) fn held(&self) -> usize {
        self.waiting.capacity()
    }

    /// Returns the content. Chunks of `known`, the directory's earlier content, are not sent.
    pub(super) fn finish(mut self, known: Option<&Content>, sink: &mut Sink) -> Result<Content, Stop> {
        let known = known.and_then(|known| known.segments().ok()).unwrap_or_default();
        let is_known = |hash: &Hash| {
            known.iter().any(|segment| matches!(segment, Segment::Chunk { hash: known, .. } if known == hash))
        };
        while !self.waiting.is_empty() {
            self.cut(sink, is_known)?;
        }
        self.content.finish(|node| sink.send(node))
    }

    fn cut(&mut self, sink: &mut Sink, is_known: impl FnOnce(&Hash) -> bool) -> Result<(), Stop> {
        let length = next_cut(&self.waiting);
        let hash = sink.send_unless(&self.waiting[..length], is_known)?;
        self.waiting.drain(..length);
        let segment = Segment::Chunk { hash, length: length as u64 };
        self.content.push(&segment, &mut |node| sink.send(node))
    }
}
