//! The order of an archive.

use std::error::Error;

use super::seen::{KeyedSet, OverLimit};
use super::{MAX_DEPTH, MAX_SIZE_BYTES, MAX_STORED_BYTES, MAX_VISITS};
use crate::content::InvalidContent;
use crate::{ChunkSource, Content, ContentReader, Entry, Kind, ReadError, Segment, TreeReader};

/// An item that a walk visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// An entry. What it contains follows.
    Entry {
        /// Path from the root.
        path: Vec<u8>,
        /// The entry.
        entry: Entry,
    },
    /// The next bytes of the file that was visited last.
    Segment(Segment),
}

/// What a walk has visited so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of entries.
    pub entries: u64,
    /// Number of files, without other names of the same file.
    pub files: u64,
    /// Size of the files in bytes, with holes.
    pub size_bytes: u64,
    /// Size of the files in bytes, without holes.
    pub stored_bytes: u64,
}

/// Why a tree cannot be walked.
#[derive(Debug, thiserror::Error)]
pub enum WalkError<E: Error + 'static> {
    /// A directory or file cannot be read, or is not valid.
    #[error("{}: {error}", String::from_utf8_lossy(path))]
    Read {
        /// The directory or file.
        path: Vec<u8>,
        /// What is wrong.
        #[source]
        error: ReadError<E>,
    },
    /// A directory is deeper than [`MAX_DEPTH`].
    #[error("{}: deeper than {MAX_DEPTH} levels", String::from_utf8_lossy(path))]
    TooDeep {
        /// The directory.
        path: Vec<u8>,
    },
    /// A hard link does not name a file that comes before it.
    #[error("{}: a link of a file that the snapshot does not have", String::from_utf8_lossy(path))]
    BrokenLink {
        /// The link.
        path: Vec<u8>,
    },
    /// The tree is too large.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
}

/// Walks a tree. Takes memory for one chunk of each directory on the way, and 16 bytes for each file.
#[derive(Debug)]
pub struct Walk {
    levels: Vec<Level>,
    path: Vec<u8>,
    /// The file whose bytes come next.
    file: Option<ContentReader>,
    /// Paths of the files, which links may name.
    files: KeyedSet,
    totals: Totals,
    /// Number of entries, and of segments as often as the tree has them.
    visits: u64,
}

/// A directory that is being read.
#[derive(Debug)]
struct Level {
    reader: TreeReader,
    /// Length of the directory's path.
    path: usize,
}

impl Walk {
    /// Walks the tree with this root directory.
    pub fn new(root: &Content) -> Result<Self, InvalidContent> {
        let root = Level { reader: TreeReader::new(root)?, path: 0 };
        Ok(Self {
            levels: vec![root],
            path: Vec::new(),
            file: None,
            files: KeyedSet::default(),
            totals: Totals::default(),
            visits: 0,
        })
    }

    /// What was visited so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Visits the next entry or segment. `None` is the end of the tree.
    pub async fn next<S: ChunkSource>(&mut self, source: &S) -> Result<Option<Visit>, WalkError<S::Error>> {
        if let Some(file) = &mut self.file {
            let segment = file.next(source).await.map_err(|error| self.failed(error))?;
            if let Some(segment) = segment {
                self.count(&segment)?;
                return Ok(Some(Visit::Segment(segment)));
            }
            self.file = None;
        }
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path);
            match level.reader.next(source).await {
                Ok(Some(entry)) => return self.visit(entry).map(Some),
                Ok(None) => drop(self.levels.pop()),
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(None)
    }

    fn visit<E: Error>(&mut self, entry: Entry) -> Result<Visit, WalkError<E>> {
        self.totals.entries += 1;
        self.count_visit()?;
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&entry.name);
        match (entry.kind(), &entry.content) {
            (Kind::Directory, Some(content)) => self.enter(content)?,
            (Kind::File, Some(content)) => self.open(content)?,
            (Kind::HardLink, _) if !self.files.contains(&&*entry.target) => {
                return Err(WalkError::BrokenLink { path: self.path.clone() });
            }
            _ => {}
        }
        Ok(Visit::Entry { path: self.path.clone(), entry })
    }

    fn enter<E: Error>(&mut self, content: &Content) -> Result<(), WalkError<E>> {
        // The root is not a directory of a path.
        if self.levels.len() > MAX_DEPTH {
            return Err(WalkError::TooDeep { path: self.path.clone() });
        }
        let reader = TreeReader::new(content).map_err(|error| self.failed(error.into()))?;
        self.levels.push(Level { reader, path: self.path.len() });
        Ok(())
    }

    fn open<E: Error>(&mut self, content: &Content) -> Result<(), WalkError<E>> {
        self.totals.files += 1;
        self.totals.size_bytes = self.totals.size_bytes.saturating_add(content.size);
        OverLimit::check(self.totals.size_bytes, MAX_SIZE_BYTES, "bytes in its files")?;
        self.files.insert(&&*self.path);
        self.file = Some(ContentReader::new(content).map_err(|error| self.failed(error.into()))?);
        Ok(())
    }

    fn count_visit(&mut self) -> Result<(), OverLimit> {
        self.visits += 1;
        OverLimit::check(self.visits, MAX_VISITS, "entries and parts of files")
    }

    fn count(&mut self, segment: &Segment) -> Result<(), OverLimit> {
        self.count_visit()?;
        if let Segment::Chunk { length, .. } = segment {
            self.totals.stored_bytes += length;
        }
        OverLimit::check(self.totals.stored_bytes, MAX_STORED_BYTES, "bytes in its files without holes")
    }

    fn failed<E: Error>(&self, error: ReadError<E>) -> WalkError<E> {
        WalkError::Read { path: self.path.clone(), error }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use bytes::Bytes;
    use prost::Message;

    use super::*;
    use crate::Hash;

    /// A source of these chunks, of any length.
    #[derive(Default)]
    struct Chunks(HashMap<Hash, Bytes>);

    impl Chunks {
        fn add(&mut self, chunk: Vec<u8>) -> Content {
            let (hash, length) = (Hash::of(&chunk), chunk.len() as u64);
            self.0.insert(hash, chunk.into());
            let segments = [&hash.as_bytes()[..], &length.to_le_bytes()].concat().into();
            Content { size: length, depth: 0, segments }
        }
    }

    impl ChunkSource for Chunks {
        type Error = Infallible;

        async fn chunk(&self, hash: Hash, _: u64) -> Result<Bytes, Infallible> {
            Ok(self.0[&hash].clone())
        }
    }

    /// A few chunks can describe more directories than a disk can hold.
    #[test]
    fn entries_are_counted_as_often_as_the_tree_has_them() {
        let mut chunks = Chunks::default();
        let mut content = Content::default();
        for _ in 0..100 {
            let twice = ["a", "b"].map(|name| {
                let (kind, content) = (Kind::Directory.into(), Some(content.clone()));
                Entry { name: name.into(), kind, content, ..Entry::default() }
                    .encode_length_delimited_to_vec()
            });
            content = chunks.add(twice.concat());
        }
        let mut walk = Walk::new(&content).unwrap();
        walk.visits = MAX_VISITS - 5000;
        let over = loop {
            match ready(walk.next(&chunks)) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the walk has ended"),
                Err(error) => break error,
            }
        };
        assert!(matches!(over, WalkError::OverLimit(_)), "{over}");
        assert_eq!(walk.totals().entries, 5001);
    }

    /// A few nodes can describe more holes of a file than can be visited.
    #[test]
    fn parts_of_files_are_counted() {
        let hole = [&[0; Hash::BYTES][..], &1_u64.to_le_bytes()].concat();
        let mut source = Chunks::default();
        let file = Content { size: 1, depth: 1, ..source.add(hole) };
        let mut walk = Walk::new(&Content::default()).unwrap();
        walk.visits = MAX_VISITS - 1;
        walk.file = Some(ContentReader::new(&file).unwrap());
        let next = |walk: &mut Walk| ready(walk.next(&source));
        assert!(matches!(next(&mut walk), Ok(Some(Visit::Segment(Segment::Hole { length: 1 })))));
        walk.file = Some(ContentReader::new(&file).unwrap());
        assert!(matches!(next(&mut walk), Err(WalkError::OverLimit(_))));
    }

    /// Runs a future that is always ready.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => panic!("it is not ready"),
        }
    }
}
