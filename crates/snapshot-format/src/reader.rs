//! Reads contents and directories from where the chunks are.

use std::error::Error;
use std::future::Future;

use bytes::Bytes;

use crate::content::{InvalidContent, decode_node};
use crate::tree::InvalidTree;
use crate::{Content, Entry, Hash, Segment, TreeDecoder};

/// Where chunks are read from.
pub trait ChunkSource: Send + Sync {
    /// Why a chunk cannot be read.
    type Error: Error + Send + Sync + 'static;

    /// Returns the verified bytes of a chunk of `length` bytes.
    fn chunk(&self, hash: Hash, length: u64) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// Returns the verified bytes of several chunks with their lengths, in their order. A source that can read several at
    /// once overrides it.
    fn chunks(&self, chunks: &[(Hash, u64)]) -> impl Future<Output = Result<Vec<Bytes>, Self::Error>> + Send {
        async move {
            let mut found = Vec::with_capacity(chunks.len());
            for (hash, length) in chunks {
                found.push(self.chunk(*hash, *length).await?);
            }
            Ok(found)
        }
    }
}

impl<S: ChunkSource> ChunkSource for &S {
    type Error = S::Error;

    fn chunk(&self, hash: Hash, length: u64) -> impl Future<Output = Result<Bytes, Self::Error>> + Send {
        (**self).chunk(hash, length)
    }

    fn chunks(&self, chunks: &[(Hash, u64)]) -> impl Future<Output = Result<Vec<Bytes>, Self::Error>> + Send {
        (**self).chunks(chunks)
    }
}

/// Why a content or directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E: Error + 'static> {
    /// A chunk cannot be read.
    #[error(transparent)]
    Chunk(E),
    /// The list of chunks is not valid.
    #[error(transparent)]
    Content(#[from] InvalidContent),
    /// A directory is not valid.
    #[error(transparent)]
    Tree(#[from] InvalidTree),
}

/// Reads the segments of a content, in order. Takes memory for one node of each level.
#[derive(Debug)]
pub struct ContentReader {
    /// What is left of each level, from the content's own segments down, and the level's depth.
    levels: Vec<(std::vec::IntoIter<Segment>, u32)>,
    /// Number of bytes that are still to come.
    left: u64,
}

impl ContentReader {
    /// Creates a reader.
    pub fn new(content: &Content) -> Result<Self, InvalidContent> {
        let segments = content.segments()?;
        Ok(Self { levels: vec![(segments.into_iter(), content.depth)], left: content.size })
    }

    /// Returns the next segment of the content's bytes.
    pub async fn next<S: ChunkSource>(&mut self, source: &S) -> Result<Option<Segment>, ReadError<S::Error>> {
        while let Some((segments, depth)) = self.levels.last_mut() {
            let depth = *depth;
            match segments.next() {
                None => drop(self.levels.pop()),
                Some(segment) if depth == 0 => {
                    let left = self.left.checked_sub(segment.length());
                    self.left = left.ok_or(InvalidContent::TOO_LONG)?;
                    return Ok(Some(segment));
                }
                Some(Segment::Chunk { hash, length }) => {
                    let node = source.chunk(hash, length).await.map_err(ReadError::Chunk)?;
                    self.levels.push((decode_node(&node, depth)?.into_iter(), depth - 1));
                }
                Some(Segment::Hole { .. }) => return Err(InvalidContent::HOLE_AS_NODE.into()),
            }
        }
        if self.left > 0 { Err(InvalidContent::TOO_SHORT.into()) } else { Ok(None) }
    }
}

/// Reads the entries of a directory, in the order of their names.
#[derive(Debug)]
pub struct TreeReader {
    content: ContentReader,
    decoder: TreeDecoder,
    is_complete: bool,
}

impl TreeReader {
    /// Creates a reader of the directory with this content.
    pub fn new(content: &Content) -> Result<Self, InvalidContent> {
        Ok(Self {
            content: ContentReader::new(content)?,
            decoder: TreeDecoder::default(),
            is_complete: false,
        })
    }

    /// Returns the next entry.
    pub async fn next<S: ChunkSource>(&mut self, source: &S) -> Result<Option<Entry>, ReadError<S::Error>> {
        loop {
            if let Some(entry) = self.decoder.next_entry()? {
                return Ok(Some(entry));
            }
            if self.is_complete {
                self.decoder.finish()?;
                return Ok(None);
            }
            match self.content.next(source).await? {
                Some(Segment::Chunk { hash, length }) => {
                    let chunk = source.chunk(hash, length).await.map_err(ReadError::Chunk)?;
                    self.decoder.push(&chunk);
                }
                Some(Segment::Hole { .. }) => return Err(InvalidContent::HOLE_IN_DIRECTORY.into()),
                None => self.is_complete = true,
            }
        }
    }
}
