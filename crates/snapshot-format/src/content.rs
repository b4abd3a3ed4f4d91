//! The chunks of a file or directory, in order.
//!
//! A [`Content`] names up to [`INLINE_SEGMENTS`] segments itself. A longer list is cut into *nodes* of
//! [`NODE_SEGMENTS`], which are chunks too, and so on: `depth` is the number of such levels. So an entry of a directory
//! stays small, whatever the size of the file.

use bytes::{BufMut, Bytes};

use crate::{Hash, MAX_CHUNK_BYTES};

/// Maximum number of segments that a [`Content`] names itself.
pub const INLINE_SEGMENTS: usize = 32;

/// Number of segments in a full node.
pub const NODE_SEGMENTS: usize = 1024;

/// Maximum number of levels of nodes. Two are enough for 64 GiB of chunks of the usual size.
pub const MAX_DEPTH: u32 = 4;

/// Maximum size of a file in bytes. ext4 allows 16 TiB.
pub const MAX_CONTENT_BYTES: u64 = 16 << 40;

/// A part of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// The bytes of a chunk.
    Chunk {
        /// The chunk's name.
        hash: Hash,
        /// Number of bytes, at most [`MAX_CHUNK_BYTES`].
        length: u64,
    },
    /// Bytes that the file does not store, which read as zeros.
    Hole {
        /// Number of bytes.
        length: u64,
    },
}

/// The chunks of a file or directory. Its encoding is part of a tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Content {
    /// Number of bytes.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// Number of levels of nodes.
    #[prost(uint32, tag = "2")]
    pub depth: u32,
    /// Encoded segments.
    #[prost(bytes = "bytes", tag = "3")]
    pub segments: Bytes,
}

/// Why a content was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list of chunks is not valid: {0}")]
pub struct InvalidContent(&'static str);

impl InvalidContent {
    pub(crate) const TOO_LONG: Self = Self("its segments have more bytes than it says");
    pub(crate) const TOO_SHORT: Self = Self("its segments have fewer bytes than it says");
    pub(crate) const HOLE_AS_NODE: Self = Self("a node is a hole");
    pub(crate) const HOLE_IN_DIRECTORY: Self = Self("a directory has a hole");
}

const NO_CHUNK: [u8; Hash::BYTES] = [0; Hash::BYTES];

impl Segment {
    /// Size of an encoded segment: the hash, or zeros for a hole, and the length (little endian).
    pub const BYTES: usize = Hash::BYTES + size_of::<u64>();

    /// Number of bytes of the content.
    pub fn length(&self) -> u64 {
        match *self {
            Self::Chunk { length, .. } | Self::Hole { length } => length,
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Chunk { hash, .. } => to.put_slice(hash.as_bytes()),
            Self::Hole { .. } => to.put_slice(&NO_CHUNK),
        }
        to.put_u64_le(self.length());
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, InvalidContent> {
        let (hash, length) = bytes.split_at(Hash::BYTES);
        let length =
            u64::from_le_bytes(length.try_into().map_err(|_| InvalidContent("a length is missing"))?);
        let hash = Hash::from_slice(hash).ok_or(InvalidContent("a name is missing"))?;
        match (hash.as_bytes() == &NO_CHUNK, length) {
            (_, 0) => Err(InvalidContent("a segment is empty")),
            (true, 1..=MAX_CONTENT_BYTES) => Ok(Self::Hole { length }),
            (false, _) if length <= MAX_CHUNK_BYTES as u64 => Ok(Self::Chunk { hash, length }),
            _ => Err(InvalidContent("a segment is too long")),
        }
    }
}

/// Decodes the segments of a content or node.
pub fn decode_segments(bytes: &[u8]) -> Result<Vec<Segment>, InvalidContent> {
    let (segments, rest) = bytes.as_chunks::<{ Segment::BYTES }>();
    if !rest.is_empty() {
        return Err(InvalidContent("a segment is cut off"));
    }
    segments.iter().map(Segment::decode).collect()
}

impl Content {
    /// Decodes the segments that this content names itself. With `depth` 0 they are its bytes, otherwise its nodes.
    pub fn segments(&self) -> Result<Vec<Segment>, InvalidContent> {
        if self.depth > MAX_DEPTH || self.size > MAX_CONTENT_BYTES {
            return Err(InvalidContent("it is too large"));
        }
        if self.segments.len() > INLINE_SEGMENTS * Segment::BYTES {
            return Err(InvalidContent("it names too many segments"));
        }
        let segments = decode_segments(&self.segments)?;
        match self.depth {
            0 if !is_sum(&segments, self.size) => Err(InvalidContent("its segments have another size")),
            0 => Ok(segments),
            _ => nodes_only(segments),
        }
    }
}

/// Decodes a node. `depth` is that of the content minus the levels above this node: at 1, its segments are bytes of
/// the content.
pub fn decode_node(node: &[u8], depth: u32) -> Result<Vec<Segment>, InvalidContent> {
    if node.len() > NODE_SEGMENTS * Segment::BYTES {
        return Err(InvalidContent("a node is too large"));
    }
    let segments = decode_segments(node)?;
    if depth > 1 { nodes_only(segments) } else { Ok(segments) }
}

fn nodes_only(segments: Vec<Segment>) -> Result<Vec<Segment>, InvalidContent> {
    match segments.iter().all(|segment| matches!(segment, Segment::Chunk { .. })) {
        true => Ok(segments),
        false => Err(InvalidContent::HOLE_AS_NODE),
    }
}

fn is_sum(segments: &[Segment], size: u64) -> bool {
    segments.iter().try_fold(0_u64, |sum, segment| sum.checked_add(segment.length())) == Some(size)
}

/// Collects the segments of a content.
#[derive(Debug, Default)]
pub struct ContentBuilder {
    size: u64,
    /// Encoded segments that are in no node yet, from the lowest level up.
    levels: Vec<Vec<u8>>,
}

impl ContentBuilder {
    /// Adds a segment. Full nodes are passed to `node`, which stores them as chunks and returns their names. Adjacent
    /// holes must be one.
    pub fn push<E>(
        &mut self,
        segment: &Segment,
        node: &mut impl FnMut(&[u8]) -> Result<Hash, E>,
    ) -> Result<(), E> {
        self.size += segment.length();
        self.push_at(0, segment, node)
    }

    fn push_at<E>(
        &mut self,
        level: usize,
        segment: &Segment,
        node: &mut impl FnMut(&[u8]) -> Result<Hash, E>,
    ) -> Result<(), E> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        segment.encode(&mut self.levels[level]);
        if self.levels[level].len() == NODE_SEGMENTS * Segment::BYTES {
            self.close_node(level, node)?;
        }
        Ok(())
    }

    fn close_node<E>(
        &mut self,
        level: usize,
        node: &mut impl FnMut(&[u8]) -> Result<Hash, E>,
    ) -> Result<(), E> {
        let encoded = std::mem::take(&mut self.levels[level]);
        let segment = Segment::Chunk { hash: node(&encoded)?, length: encoded.len() as u64 };
        self.push_at(level + 1, &segment, node)
    }

    /// Returns the content, and clears the builder for the next one. Nodes are passed to `node`.
    pub fn finish<E>(&mut self, mut node: impl FnMut(&[u8]) -> Result<Hash, E>) -> Result<Content, E> {
        let mut level = 0;
        loop {
            let is_last = level + 1 >= self.levels.len();
            let encoded = self.levels.get(level).map_or(0, Vec::len);
            if is_last && encoded <= INLINE_SEGMENTS * Segment::BYTES {
                let segments = self.levels.pop().unwrap_or_default().into();
                let depth = u32::try_from(level).unwrap_or(u32::MAX);
                let size = std::mem::take(&mut self.size);
                self.levels.clear();
                return Ok(Content { size, depth, segments });
            }
            if encoded > 0 {
                self.close_node(level, &mut node)?;
            }
            level += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use super::*;

    fn chunk(number: u64) -> Segment {
        Segment::Chunk { hash: Hash::of(&number.to_le_bytes()), length: 1 + number % MAX_CHUNK_BYTES as u64 }
    }

    /// Builds a content, and returns it with the nodes.
    fn built(segments: &[Segment]) -> (Content, HashMap<Hash, Vec<u8>>) {
        let mut nodes = HashMap::new();
        let mut node = |bytes: &[u8]| {
            let hash = Hash::of(bytes);
            nodes.insert(hash, bytes.to_vec());
            Ok::<Hash, Infallible>(hash)
        };
        let mut builder = ContentBuilder::default();
        for segment in segments {
            builder.push(segment, &mut node).unwrap();
        }
        let content = builder.finish(&mut node).unwrap();
        (content, nodes)
    }

    fn expand(segments: Vec<Segment>, depth: u32, nodes: &HashMap<Hash, Vec<u8>>) -> Vec<Segment> {
        if depth == 0 {
            return segments;
        }
        let node = |segment: Segment| match segment {
            Segment::Chunk { hash, .. } => decode_node(&nodes[&hash], depth).unwrap(),
            Segment::Hole { .. } => panic!("a node is a hole"),
        };
        segments.into_iter().flat_map(|segment| expand(node(segment), depth - 1, nodes)).collect()
    }

    #[test]
    fn every_number_of_segments_comes_back() {
        let full = NODE_SEGMENTS;
        let counts = [
            (0, 0),
            (1, 0),
            (INLINE_SEGMENTS, 0),
            (INLINE_SEGMENTS + 1, 1),
            (full, 1),
            (full + 1, 1),
            (full * INLINE_SEGMENTS, 1),
            (full * INLINE_SEGMENTS + 1, 2),
            (full * (INLINE_SEGMENTS + 1), 2),
        ];
        for (count, depth) in counts {
            let mut segments: Vec<Segment> = (0..count as u64).map(chunk).collect();
            if let Some(first) = segments.first_mut() {
                *first = Segment::Hole { length: 1 << 40 };
            }
            let (content, nodes) = built(&segments);
            assert_eq!(content.depth, depth, "{count} segments");
            assert_eq!(content.size, segments.iter().map(Segment::length).sum::<u64>());
            assert_eq!(expand(content.segments().unwrap(), depth, &nodes), segments);
        }
    }

    fn rejected(content: Content) -> &'static str {
        content.segments().unwrap_err().0
    }

    #[test]
    fn what_no_builder_makes_is_rejected() {
        let encoded = |segments: &[Segment]| {
            let mut bytes = Vec::new();
            segments.iter().for_each(|segment| segment.encode(&mut bytes));
            Bytes::from(bytes)
        };
        let long = Segment::Chunk { hash: Hash::of(b""), length: MAX_CHUNK_BYTES as u64 + 1 };
        let empty = Segment::Hole { length: 0 };
        let content =
            |size, depth, segments: &[Segment]| Content { size, depth, segments: encoded(segments) };
        assert_eq!(rejected(content(long.length(), 0, &[long])), "a segment is too long");
        assert_eq!(rejected(content(0, 0, &[empty])), "a segment is empty");
        assert_eq!(rejected(content(2, 0, &[chunk(0)])), "its segments have another size");
        assert_eq!(rejected(content(1, MAX_DEPTH + 1, &[chunk(0)])), "it is too large");
        assert_eq!(rejected(content(1, 1, &[Segment::Hole { length: 1 }])), "a node is a hole");
        let many = vec![chunk(0); INLINE_SEGMENTS + 1];
        assert_eq!(rejected(content(33, 0, &many)), "it names too many segments");
        let cut_off = Content { size: 1, depth: 0, segments: encoded(&[chunk(0)]).slice(1..) };
        assert_eq!(rejected(cut_off), "a segment is cut off");
        let holes = vec![Segment::Hole { length: MAX_CONTENT_BYTES }; 2];
        assert_eq!(rejected(content(MAX_CONTENT_BYTES, 0, &holes)), "its segments have another size");
    }
}
