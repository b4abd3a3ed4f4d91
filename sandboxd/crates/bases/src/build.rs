//! Builds an image from the tree of a snapshot.
//!
//! The tree is read first, because all positions in the image depend on it. Then the bytes of the files are read and
//! written to their positions.

use std::fs::File;
use std::io;
use std::sync::Arc;

use erofs_image::{Attributes, Invalid, MAX_TEXT_BYTES, Node, Plan, Special, Tree, Xattr};
use snapshot_format::{
    ChunkSource, Content, ContentReader, Entry, Hash, Kind, ReadError, Segment, TreeReader,
};
use tokio::task::spawn_blocking;

use crate::BaseName;

/// Mode of the root directory, of which a snapshot has no record.
const ROOT_MODE: u16 = 0o755;

/// Bytes and number of the chunks that are read together.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;
const BATCH_CHUNKS: usize = 4096;

/// Why no base can be built.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + 'static> {
    /// The snapshot cannot be read.
    #[error("the snapshot cannot be read")]
    Read(#[from] ReadError<E>),
    /// The format of images does not support the snapshot's files. They can be restored one by one.
    #[error("the snapshot's files cannot be a base")]
    Invalid(#[from] Invalid),
    /// A hard link of the snapshot leads to no file.
    #[error("a hard link of the snapshot leads to no file")]
    Link,
    /// The image cannot be written.
    #[error("the base cannot be written")]
    Write(#[from] io::Error),
}

/// The files of a tree, with their bytes.
type Files = Vec<(Node, Content)>;

/// A base whose size is known, and whose image is still to be written.
#[derive(Debug)]
pub struct Builder<S> {
    source: S,
    plan: Arc<Plan>,
    files: Files,
}

impl<S: ChunkSource<Error: Send + 'static>> Builder<S> {
    /// Reads the tree of a snapshot with this root directory.
    ///
    /// # Errors
    ///
    /// The tree cannot be read, or the format of images does not support its files.
    pub async fn read(source: S, root: &Content) -> Result<Self, Error<S::Error>> {
        let attributes = Attributes { mode: ROOT_MODE, ..Attributes::default() };
        let mut walk =
            Walk { tree: Tree::new(attributes)?, files: Vec::new(), links: Vec::new(), link_bytes: 0 };
        let mut open = vec![(Tree::ROOT, directory(root)?)];
        while let Some((parent, reader)) = open.last_mut() {
            let Some(entry) = reader.next(&source).await? else {
                open.pop();
                continue;
            };
            let parent = *parent;
            if let Some((node, content)) = walk.add(parent, entry)? {
                open.push((node, directory(&content)?));
            }
        }
        let uuid = BaseName::of(root).uuid();
        let (plan, files) = blocking(move || {
            let (tree, files) = walk.finish()?;
            Ok((Plan::new(tree, uuid)?, files))
        })
        .await?;
        Ok(Self { source, plan: plan.into(), files })
    }

    /// Size of the image in bytes, holes included.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.plan.size()
    }

    /// Writes the image to an empty file. Holes of the snapshot's files are holes of it.
    ///
    /// # Errors
    ///
    /// A file of the snapshot cannot be read, or the image cannot be written.
    pub async fn write(&self, image: &File) -> Result<(), Error<S::Error>> {
        let (plan, file) = (Arc::clone(&self.plan), image.try_clone()?);
        blocking(move || Ok(plan.write_tree(&file)?)).await?;
        let mut batch = Batch::default();
        for (node, content) in &self.files {
            let mut reader = ContentReader::new(content).map_err(ReadError::Content)?;
            let mut offset = 0;
            while let Some(segment) = reader.next(&self.source).await? {
                if let Segment::Chunk { hash, length } = segment {
                    batch.add(*node, offset, hash, length);
                }
                offset += segment.length();
                if batch.is_full() {
                    self.write_batch(image, std::mem::take(&mut batch)).await?;
                }
            }
        }
        self.write_batch(image, batch).await
    }

    async fn write_batch(&self, image: &File, batch: Batch) -> Result<(), Error<S::Error>> {
        let chunks = self.source.chunks(&batch.chunks).await.map_err(ReadError::Chunk)?;
        let (plan, file) = (Arc::clone(&self.plan), image.try_clone()?);
        blocking(move || {
            for ((node, offset), chunk) in batch.places.into_iter().zip(chunks) {
                plan.write(&file, node, offset, &chunk)?;
            }
            Ok(())
        })
        .await
    }
}

/// Runs what takes long for a large tree on a thread where it delays no other task.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, Error<E>> + Send + 'static) -> Result<T, Error<E>>
where
    T: Send + 'static,
    E: std::error::Error + Send + 'static,
{
    spawn_blocking(work).await.map_err(io::Error::other)?
}

fn directory<E: std::error::Error>(content: &Content) -> Result<TreeReader, ReadError<E>> {
    Ok(TreeReader::new(content)?)
}

/// Chunks that are read together, and where they belong in the image.
#[derive(Debug, Default)]
struct Batch {
    chunks: Vec<(Hash, u64)>,
    places: Vec<(Node, u64)>,
    bytes: u64,
}

impl Batch {
    fn add(&mut self, node: Node, offset: u64, hash: Hash, length: u64) {
        self.chunks.push((hash, length));
        self.places.push((node, offset));
        self.bytes += length;
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.chunks.len() >= BATCH_CHUNKS
    }
}

/// The entries of a tree that were read.
struct Walk {
    tree: Tree,
    files: Files,
    /// Parents, names and targets of hard links.
    links: Vec<(Node, Vec<u8>, Vec<u8>)>,
    /// Memory that they take.
    link_bytes: usize,
}

impl Walk {
    /// Adds an entry. Returns a directory, which is read next.
    fn add<E: std::error::Error>(
        &mut self,
        parent: Node,
        entry: Entry,
    ) -> Result<Option<(Node, Content)>, Error<E>> {
        let kind = entry.kind();
        let (attributes, content) = (attributes(&entry), entry.content.unwrap_or_default());
        let (name, tree) = (&entry.name[..], &mut self.tree);
        match kind {
            Kind::Directory => return Ok(Some((tree.directory(parent, name, attributes)?, content))),
            Kind::File => self.files.push((tree.file(parent, name, attributes, content.size)?, content)),
            Kind::SymbolicLink => drop(tree.symbolic_link(parent, name, attributes, &entry.target)?),
            Kind::Fifo => drop(tree.special(parent, name, attributes, Special::Fifo)?),
            Kind::Socket => drop(tree.special(parent, name, attributes, Special::Socket)?),
            Kind::HardLink => {
                self.link_bytes += name.len() + entry.target.len() + size_of::<(Node, Vec<u8>, Vec<u8>)>();
                if self.link_bytes > MAX_TEXT_BYTES {
                    return Err(Invalid::TooMuchText.into());
                }
                self.links.push((parent, name.to_vec(), entry.target.to_vec()));
            }
            // The decoder rejects it.
            Kind::Unspecified => return Err(Error::Link),
        }
        Ok(None)
    }

    /// Adds the hard links. First all of them are looked up, because new entries are not in order.
    fn finish<E: std::error::Error>(mut self) -> Result<(Tree, Files), Error<E>> {
        let targets: Option<Vec<Node>> =
            self.links.iter().map(|(_, _, target)| self.tree.find(target)).collect();
        for ((parent, name, _), file) in self.links.iter().zip(targets.ok_or(Error::Link)?) {
            self.tree.hard_link(*parent, name, file)?;
        }
        Ok((self.tree, self.files))
    }
}

fn attributes(entry: &Entry) -> Attributes {
    let xattr = |attribute: &snapshot_format::tree::Attribute| Xattr {
        name: attribute.name.to_vec(),
        value: attribute.value.to_vec(),
    };
    Attributes {
        // The decoder accepts only the lower 12 bits.
        mode: (entry.mode & snapshot_format::tree::MODE_BITS) as u16,
        modified_s: entry.modified_s,
        modified_ns: entry.modified_ns,
        xattrs: entry.attributes.iter().map(xattr).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;
    use std::future::{Future, ready};
    use std::io::Read;

    use bytes::Bytes;
    use prost::Message;
    use snapshot_format::{ContentBuilder, Hash};

    use super::*;

    /// Chunks in memory.
    #[derive(Debug, Default)]
    struct Chunks(HashMap<Hash, Bytes>);

    impl ChunkSource for Chunks {
        type Error = Infallible;

        fn chunk(&self, hash: Hash, length: u64) -> impl Future<Output = Result<Bytes, Infallible>> + Send {
            let chunk = self.0[&hash].clone();
            assert_eq!(chunk.len() as u64, length);
            ready(Ok(chunk))
        }
    }

    impl Chunks {
        /// A content of these pieces. A number is a hole of that many bytes.
        fn content(&mut self, pieces: &[Result<&[u8], u64>]) -> Content {
            let mut builder = ContentBuilder::default();
            let mut node =
                |_: &[u8]| -> Result<Hash, Infallible> { unreachable!("few segments need no node") };
            for piece in pieces {
                let segment = match piece {
                    Ok(bytes) => {
                        self.0.insert(Hash::of(bytes), Bytes::copy_from_slice(bytes));
                        Segment::Chunk { hash: Hash::of(bytes), length: bytes.len() as u64 }
                    }
                    Err(length) => Segment::Hole { length: *length },
                };
                builder.push(&segment, &mut node).unwrap();
            }
            builder.finish(node).unwrap()
        }

        fn directory(&mut self, entries: &[Entry]) -> Content {
            let bytes: Vec<u8> = entries.iter().flat_map(Message::encode_length_delimited_to_vec).collect();
            self.content(&[Ok(&bytes)])
        }
    }

    fn entry(name: &'static str, kind: Kind, content: Option<Content>, target: &'static str) -> Entry {
        let mode = if matches!(kind, Kind::SymbolicLink | Kind::HardLink) { 0 } else { 0o640 };
        Entry {
            name: name.into(),
            kind: kind.into(),
            mode,
            content,
            target: target.into(),
            ..Entry::default()
        }
    }

    fn example(chunks: &mut Chunks) -> Content {
        let file = chunks.content(&[Ok(b"first"), Err(10_000), Ok(b"last")]);
        let workspace = chunks.directory(&[
            entry("a", Kind::File, Some(file), ""),
            entry("b", Kind::HardLink, None, "workspace/a"),
            entry("c", Kind::SymbolicLink, None, "/etc/passwd"),
            entry("d", Kind::Fifo, None, ""),
        ]);
        chunks.directory(&[entry("workspace", Kind::Directory, Some(workspace), "")])
    }

    async fn image(chunks: &Chunks, root: &Content) -> Vec<u8> {
        let builder = Builder::read(chunks, root).await.unwrap();
        let mut image = tempfile::tempfile().unwrap();
        builder.write(&image).await.unwrap();
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut image).unwrap();
        image.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, builder.size());
        bytes
    }

    #[tokio::test]
    async fn the_same_tree_becomes_the_same_image() {
        let mut chunks = Chunks::default();
        let root = example(&mut chunks);
        let (one, two) = (image(&chunks, &root).await, image(&chunks, &root).await);
        assert!(one == two);
        let has = |text: &[u8]| one.windows(text.len()).any(|window| window == text);
        assert!(has(b"first") && has(b"last") && has(b"/etc/passwd") && has(b"workspace"));
        assert!(has(&BaseName::of(&root).uuid()));
    }

    #[tokio::test]
    async fn a_base_is_named_by_its_tree() {
        let mut chunks = Chunks::default();
        let root = example(&mut chunks);
        let name = BaseName::of(&root);
        assert_eq!(name.to_string().len(), 64);
        assert_eq!(name, BaseName::of(&example(&mut chunks)));
        let other = chunks.directory(&[]);
        assert_ne!(name, BaseName::of(&other));
    }

    #[tokio::test]
    async fn a_link_to_nothing_is_rejected() {
        let mut chunks = Chunks::default();
        let root = chunks.directory(&[entry("b", Kind::HardLink, None, "workspace/a")]);
        assert!(matches!(Builder::read(&chunks, &root).await, Err(Error::Link)));
        let root = chunks.directory(&[
            entry("a", Kind::Directory, Some(Content::default()), ""),
            entry("b", Kind::HardLink, None, "a"),
        ]);
        assert!(matches!(Builder::read(&chunks, &root).await, Err(Error::Invalid(Invalid::Kind))));
    }
}
