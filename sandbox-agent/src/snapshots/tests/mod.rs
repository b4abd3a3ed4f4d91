//! Trees of files become snapshots, are changed, and are restored.

mod any_tree;
mod make;
mod restore;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent_protocol::v1::{RestoreNeeds, RestoreReply, SnapshotEnd, SnapshotPart, restore_step};
use bytes::Bytes;
use futures::executor::block_on;
use prost::Message;
use snapshot_format::plan::{Plan, Step};
use snapshot_format::{ChunkSource, Content, ContentReader, Decompressor, Entry, Hash, Segment};

use super::*;
use crate::files;
use crate::files::staging::STAT_CACHE;
use crate::files::workspace::Workspace;

/// The chunks that were sent, as the daemon keeps them.
#[derive(Debug, Default)]
struct Chunks(HashMap<Hash, Bytes>);

impl ChunkSource for Chunks {
    type Error = Infallible;

    async fn chunk(&self, hash: Hash, length: u64) -> Result<Bytes, Infallible> {
        let chunk = self.0[&hash].clone();
        assert_eq!(chunk.len() as u64, length);
        Ok(chunk)
    }
}

/// A sandbox's volume.
struct Volume {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

/// A snapshot, and the number of chunks that were sent for it.
struct Made {
    root: Content,
    end: SnapshotEnd,
    sent: usize,
}

impl Volume {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["workspace", ".local", ".local/tmp", ".staging", "outputs"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let workspace = files::open(&dir.path().join("workspace")).unwrap();
        Self { dir, workspace }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn source(&self, id: &str, parent: &str) -> Source {
        let volume = self.workspace.open_volume().unwrap();
        let cache = |name: &str| self.path(".staging").join(format!("{STAT_CACHE}{name}"));
        let known = fs::File::open(cache(parent)).ok();
        let staging = Some(self.workspace.open_staging().unwrap());
        Source { volume, staging, known, cache: Some(fs::File::create(cache(id)).unwrap()) }
    }

    fn try_make(&self, id: &str, parent: &str, chunks: &mut Chunks) -> Result<Made, Stop> {
        let (sender, mut parts) = tokio::sync::mpsc::channel(1);
        let source = self.source(id, parent);
        // So small that a walk which needs stack for each level of directories fails.
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        let making = thread.spawn(move || make(source, None, Sink::new(sender)?)).unwrap();
        let mut decompressor = Decompressor::new().unwrap();
        let (mut end, mut sent) = (None, 0);
        while let Some(SnapshotPart { chunks: part, end: last }) = parts.blocking_recv() {
            for chunk in part {
                let hash = Hash::from_slice(&chunk.hash).unwrap();
                let bytes = decompressor.verified(hash, chunk.length as usize, &chunk.data).unwrap();
                chunks.0.insert(hash, bytes);
                sent += 1;
            }
            end = end.or(last);
        }
        making.join().unwrap()?;
        let end = end.unwrap();
        Ok(Made { root: Content::decode(&*end.root).unwrap(), end, sent })
    }

    fn make(&self, id: &str, parent: &str, chunks: &mut Chunks) -> Made {
        self.try_make(id, parent, chunks).unwrap()
    }

    fn restore(&self, old: Option<&Content>, new: &Content, chunks: &Chunks) -> Result<RestoreReply, Stop> {
        let volume = self.workspace.open_volume().unwrap();
        let mut restore = Restore::new(volume, self.workspace.open_staging().unwrap());
        for step in steps(old, new, chunks) {
            if let Some(reply) = restore.step(step)? {
                return Ok(reply);
            }
        }
        panic!("the restore did not end");
    }
}

/// The steps of a restore, as the daemon sends them.
fn steps(old: Option<&Content>, new: &Content, chunks: &Chunks) -> Vec<restore_step::Step> {
    use restore_step::Step as Sent;
    let mut plan = Plan::new(chunks, old, new).unwrap();
    let mut steps = vec![Sent::Needs(RestoreNeeds::default())];
    while let Some(step) = block_on(plan.next()).unwrap() {
        let encoded = |entry: &Entry| Bytes::from(entry.encode_to_vec());
        match step {
            Step::Enter(name) => steps.push(Sent::Enter(name)),
            Step::Remove(name) => steps.push(Sent::Remove(name)),
            Step::Metadata(entry) => steps.push(Sent::Metadata(encoded(&entry))),
            Step::Leave(entry) => steps.push(Sent::Leave(encoded(&entry))),
            Step::Put(entry) => {
                steps.push(Sent::Entry(encoded(&entry)));
                steps.extend(entry.content.iter().flat_map(|content| bytes_of(content, chunks)));
            }
        }
    }
    steps.push(Sent::End(true));
    steps
}

fn bytes_of(content: &Content, chunks: &Chunks) -> Vec<restore_step::Step> {
    let mut reader = ContentReader::new(content).unwrap();
    let mut steps = Vec::new();
    while let Some(segment) = block_on(reader.next(chunks)).unwrap() {
        steps.push(match segment {
            Segment::Chunk { hash, .. } => restore_step::Step::Data(chunks.0[&hash].clone()),
            Segment::Hole { length } => restore_step::Step::Hole(length),
        });
    }
    steps
}

/// Everything that a snapshot keeps of a tree, by path.
fn fingerprint(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut inodes: HashMap<u64, PathBuf> = HashMap::new();
    for top in ROOTS {
        describe(root, &root.join(top), &mut inodes, &mut found);
    }
    found
}

fn describe(
    root: &Path,
    path: &Path,
    inodes: &mut HashMap<u64, PathBuf>,
    found: &mut BTreeMap<PathBuf, String>,
) {
    let meta = fs::symlink_metadata(path).unwrap();
    let relative = path.strip_prefix(root).unwrap().to_owned();
    let mut text = format!("{:o} {}.{}", meta.mode(), meta.mtime(), meta.mtime_nsec());
    if meta.is_symlink() {
        text = format!("-> {:?} {}.{}", fs::read_link(path).unwrap(), meta.mtime(), meta.mtime_nsec());
    } else if meta.is_file() {
        let first = inodes.entry(meta.ino()).or_insert_with(|| relative.clone());
        let content = Hash::of(&fs::read(path).unwrap());
        text = format!("{text} {content} {} linked to {}", meta.len(), first.display());
    }
    if meta.is_file() || meta.is_dir() {
        text = format!("{text} {:?}", attribute_of(path));
    }
    found.insert(relative.clone(), text);
    if meta.is_dir() && relative != Path::new(".local/tmp") {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<PathBuf> = names.collect();
        names.sort();
        for name in names {
            describe(root, &name, inodes, found);
        }
    }
}

/// The attribute that tests set. Not read by what is tested.
fn attribute_of(path: &Path) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, "user.test", &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}
