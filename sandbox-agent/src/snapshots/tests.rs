//! Trees of files become snapshots, are changed, and are restored.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent_protocol::fault::Kind as Fault;
use agent_protocol::v1::{RestoreNeeds, RestoreReply, SnapshotEnd, SnapshotPart, restore_step};
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use futures::executor::block_on;
use proptest::prelude::*;
use prost::Message;
use rustix::process::{Gid, Uid};
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

/// A change of a tree.
#[derive(Debug, Clone)]
enum Act {
    Write(usize, Vec<u8>),
    Append(usize),
    Sparse(usize),
    MakeDir(usize),
    Link(usize, usize),
    SymbolicLink(usize, String),
    Fifo(usize),
    Socket(usize),
    Mode(usize, u32),
    Attribute(usize, Vec<u8>),
    Time(usize, u32),
    Rename(usize, usize),
    Remove(usize),
}

const PATHS: [&str; 14] = [
    "workspace/a",
    "workspace/b",
    "workspace/d",
    "workspace/d/a",
    "workspace/d/e",
    "workspace/d/e/f",
    "workspace/d/z",
    "workspace/ä\u{202e}\n",
    "workspace/z",
    ".local/bin",
    ".local/bin/tool",
    ".local/tmp/left-out",
    "outputs/cmd_1.log",
    "outputs/x",
];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let path = || 0..PATHS.len();
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    let act = prop_oneof![
        4 => (path(), bytes.clone()).prop_map(|(at, bytes)| Act::Write(at, bytes)),
        1 => path().prop_map(Act::Append),
        1 => path().prop_map(Act::Sparse),
        3 => path().prop_map(Act::MakeDir),
        3 => (path(), path()).prop_map(|(from, to)| Act::Link(from, to)),
        1 => (path(), "[a-z/.]{1,12}").prop_map(|(at, target)| Act::SymbolicLink(at, target)),
        1 => path().prop_map(Act::Fifo),
        1 => path().prop_map(Act::Socket),
        2 => (path(), 0..0o10000_u32).prop_map(|(at, mode)| Act::Mode(at, mode)),
        1 => (path(), bytes).prop_map(|(at, value)| Act::Attribute(at, value)),
        1 => (path(), any::<u32>()).prop_map(|(at, time)| Act::Time(at, time)),
        2 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        2 => path().prop_map(Act::Remove),
    ];
    proptest::collection::vec(act, 0..24)
}

/// Does what is possible of the acts. No link leads out of the tree, because the test runs on a developer's machine.
fn mutate(root: &Path, acts: &[Act]) {
    let root = Dir::open_ambient_dir(root, ambient_authority()).unwrap();
    for act in acts {
        let _ = mutate_once(&root, act);
    }
}

fn mutate_once(root: &Dir, act: &Act) -> io::Result<()> {
    let path = |at: &usize| PATHS[*at];
    match act {
        Act::Write(at, bytes) => {
            opened(root, path(at), true)?.set_len(0).and_then(|()| root.write(path(at), bytes))
        }
        Act::Append(at) => {
            let file = opened(root, path(at), false)?;
            file.write_all_at(&[7; 300_000], file.metadata()?.len())
        }
        Act::Sparse(at) => {
            let file = opened(root, path(at), true)?;
            file.set_len(0)?;
            file.write_all_at(b"middle", 1 << 20)?;
            file.set_len(3 << 20)
        }
        Act::MakeDir(at) => root.create_dir(path(at)),
        Act::Link(from, to) => root.hard_link(path(from), root, path(to)),
        Act::SymbolicLink(at, target) => root.symlink_contents(target, path(at)),
        Act::Fifo(at) => made(root, path(at), rustix::fs::FileType::Fifo),
        Act::Socket(at) => made(root, path(at), rustix::fs::FileType::Socket),
        Act::Mode(at, mode) => root.set_permissions(path(at), Permissions::from_mode(*mode)),
        Act::Attribute(at, value) => {
            let flags = rustix::fs::XattrFlags::empty();
            Ok(rustix::fs::fsetxattr(opened(root, path(at), false)?, "user.test", value, flags)?)
        }
        Act::Time(at, time) => {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(u64::from(*time) << 28);
            opened(root, path(at), false)?.set_modified(time)
        }
        Act::Rename(from, to) => root.rename(path(from), root, path(to)),
        Act::Remove(at) => root.remove_file(path(at)).or_else(|_| root.remove_dir_all(path(at))),
    }
}

/// Opens a regular file. Opening a named pipe would wait for its other end.
fn opened(root: &Dir, path: &str, create: bool) -> io::Result<fs::File> {
    let mut options = cap_std::fs::OpenOptions::new();
    options.read(true).write(true).create(create);
    let is_other = root.metadata(path).is_ok_and(|meta| !meta.is_file());
    if is_other {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    root.open_with(path, &options).map(cap_std::fs::File::into_std)
}

fn made(root: &Dir, path: &str, kind: rustix::fs::FileType) -> io::Result<()> {
    let (parent, name) = path.rsplit_once('/').unwrap();
    let parent = root.open_dir(parent)?;
    Ok(rustix::fs::mknodat(parent, name, kind, rustix::fs::Mode::RWXU, 0)?)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The tree is restored in place, after an interrupted restore, and in an empty volume.
    #[test]
    fn every_tree_comes_back(first in acts(), second in acts(), cut in any::<prop::sample::Index>()) {
        let volume = Volume::new();
        let mut chunks = Chunks::default();
        mutate(volume.dir.path(), &first);
        let before = fingerprint(volume.dir.path());
        let a = volume.make("a", "", &mut chunks);
        prop_assert_eq!(&fingerprint(volume.dir.path()), &before, "a snapshot changes nothing");

        mutate(volume.dir.path(), &second);
        let changed = fingerprint(volume.dir.path());
        let b = volume.make("b", "a", &mut chunks);
        let full = volume.make("full", "", &mut Chunks::default());
        prop_assert_eq!(&b.root, &full.root, "the cache changes nothing");

        let all = steps(Some(&b.root), &a.root, &chunks);
        let handle = volume.workspace.open_volume().unwrap();
        let mut restore = Restore::new(handle, volume.workspace.open_staging().unwrap());
        for step in all.iter().take(cut.index(all.len())) {
            restore.step(step.clone()).unwrap();
        }
        drop(restore);
        let c = volume.make("c", "b", &mut chunks);
        volume.restore(Some(&c.root), &a.root, &chunks).unwrap();
        prop_assert_eq!(&fingerprint(volume.dir.path()), &before);

        let fresh = Volume::new();
        let empty = fresh.make("empty", "", &mut chunks);
        fresh.restore(Some(&empty.root), &b.root, &chunks).unwrap();
        let mut got = fingerprint(fresh.dir.path());
        prop_assert_eq!(got.remove(Path::new(".local/tmp")).is_some(), changed.contains_key(Path::new(".local/tmp")));
        let mut expected = changed;
        expected.remove(Path::new(".local/tmp"));
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn an_unchanged_tree_sends_nothing() {
    let volume = Volume::new();
    let mut chunks = Chunks::default();
    for number in 0..200 {
        let dir = volume.path(&format!("workspace/{}", number % 20));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(number.to_string()), vec![0; number * 100]).unwrap();
    }
    let first = volume.make("a", "", &mut chunks);
    assert_eq!((first.end.files, first.end.directories), (200, 24));
    let again = |id: &str, parent: &str, chunks: &mut Chunks| {
        let made = volume.make(id, parent, chunks);
        assert_eq!(made.root, first.root);
        made.sent
    };
    // Files of the first snapshot's own clock tick are read again until their time is older.
    let now = stat_cache::FileTime::now();
    while stat_cache::FileTime::now() <= now {
        std::thread::yield_now();
    }
    again("b", "a", &mut chunks);
    assert_eq!(again("c", "b", &mut chunks), 0);
    // Without the cache, everything is sent.
    assert!(again("d", "unknown", &mut chunks) > 200);
}

#[test]
fn a_file_that_changes_within_a_clock_tick_is_read_again() {
    let volume = Volume::new();
    let mut chunks = Chunks::default();
    let file = volume.path("workspace/a");
    for round in 0..50_u32 {
        fs::write(&file, round.to_le_bytes()).unwrap();
        let (id, parent) = (format!("s{round}"), format!("s{}", round.wrapping_sub(1)));
        let made = volume.make(&id, &parent, &mut chunks);
        let full = volume.make("full", "", &mut chunks);
        assert_eq!(made.root, full.root, "round {round}");
    }
}

#[test]
fn a_tree_that_is_too_deep_is_rejected_by_its_name() {
    let volume = Volume::new();
    let deep = volume.path("workspace").join(["d"; 130].join("/"));
    fs::create_dir_all(deep).unwrap();
    let stopped = volume.try_make("a", "", &mut Chunks::default());
    let Err(Stop::Fault(Fault::TreeRejected(rejected))) = stopped else { panic!("not rejected") };
    assert!(rejected.path.starts_with(b"workspace/d/d/"), "{rejected:?}");
    assert_eq!(rejected.problem, "a directory is deeper than 128 levels");
}

#[test]
fn a_large_sparse_file_is_small() {
    let volume = Volume::new();
    let mut chunks = Chunks::default();
    let file = fs::File::create(volume.path("workspace/disk")).unwrap();
    file.set_len(10 << 30).unwrap();
    file.write_all_at(b"data", 5 << 30).unwrap();
    let made = volume.make("a", "", &mut chunks);
    assert!(chunks.0.values().map(Bytes::len).sum::<usize>() < 100_000);
    fs::remove_file(volume.path("workspace/disk")).unwrap();
    volume.restore(None, &made.root, &chunks).unwrap();
    let restored = fs::metadata(volume.path("workspace/disk")).unwrap();
    assert_eq!(restored.len(), 10 << 30);
    assert!(restored.blocks() * 512 < 1 << 20, "{} blocks", restored.blocks());
}

#[test]
fn a_file_that_changes_all_the_time_is_listed() {
    let volume = Volume::new();
    let path = volume.path("workspace/log");
    fs::write(&path, vec![0; 4 << 20]).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let stop = std::sync::Arc::clone(&stop);
        move || {
            let file = fs::OpenOptions::new().write(true).open(path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all_at(b"changed", 100).unwrap();
            }
        }
    });
    // The disk may be so busy that nothing is written while the file is read.
    let deadline = Instant::now() + Duration::from_secs(30);
    let made = loop {
        let made = volume.make("a", "", &mut Chunks::default());
        if made.end.torn_files > 0 || Instant::now() > deadline {
            break made;
        }
    };
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!((made.end.torn_files, &made.end.torn[..]), (1, &[Bytes::from_static(b"workspace/log")][..]));
}

/// Links that the snapshot does not have must not carry one file's content to another.
#[test]
fn files_that_were_linked_since_come_apart() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let volume = Volume::new();
        let mut chunks = Chunks::default();
        for name in ["a", "b"] {
            fs::write(volume.path(&format!("workspace/{name}")), name).unwrap();
        }
        let before = fingerprint(volume.dir.path());
        let a = volume.make("a", "", &mut chunks);
        fs::remove_file(volume.path(&format!("workspace/{to}"))).unwrap();
        fs::hard_link(volume.path(&format!("workspace/{from}")), volume.path(&format!("workspace/{to}")))
            .unwrap();
        let b = volume.make("b", "a", &mut chunks);
        volume.restore(Some(&b.root), &a.root, &chunks).unwrap();
        assert_eq!(fingerprint(volume.dir.path()), before, "{to} was a link to {from}");
    }
}

/// The daemon is trusted. These steps are bugs of the daemon, which must not change other files.
#[test]
fn a_step_outside_of_the_roots_is_rejected() {
    use restore_step::Step as Sent;
    let volume = Volume::new();
    let entry = |name: &'static str| {
        let kind = snapshot_format::Kind::Fifo.into();
        Bytes::from(Entry { name: name.into(), kind, ..Entry::default() }.encode_to_vec())
    };
    let rejected = [
        vec![Sent::Enter(".staging".into())],
        vec![Sent::Enter("..".into())],
        vec![Sent::Remove("workspace".into())],
        vec![Sent::Entry(entry("workspace"))],
        vec![Sent::Enter("workspace".into()), Sent::Remove("..".into())],
        vec![Sent::Enter("workspace".into()), Sent::Entry(entry("a/b"))],
        vec![Sent::Data("a".into())],
        vec![Sent::Enter("workspace".into()), Sent::End(true)],
    ];
    for steps in rejected {
        let handle = volume.workspace.open_volume().unwrap();
        let mut restore = Restore::new(handle, volume.workspace.open_staging().unwrap());
        let stopped = steps.into_iter().map(|step| restore.step(step)).find_map(Result::err);
        assert!(matches!(stopped, Some(Stop::Fault(Fault::TreeRejected(_)))), "{stopped:?}");
    }
    assert!(volume.path("workspace").is_dir());
}

#[test]
fn a_link_that_a_command_puts_in_the_way_leads_nowhere() {
    let volume = Volume::new();
    let mut chunks = Chunks::default();
    fs::create_dir(volume.path("workspace/d")).unwrap();
    fs::write(volume.path("workspace/d/a"), b"a").unwrap();
    let a = volume.make("a", "", &mut chunks);
    fs::remove_dir_all(volume.path("workspace/d")).unwrap();
    let b = volume.make("b", "a", &mut chunks);
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), volume.path("workspace/d")).unwrap();
    volume.restore(Some(&b.root), &a.root, &chunks).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(fs::read(volume.path("workspace/d/a")).unwrap(), b"a");
}

/// A command may replace a named pipe after the snapshot that the steps begin with.
#[test]
fn the_mode_of_a_pipe_is_not_given_to_what_a_link_in_its_place_leads_to() {
    use restore_step::Step as Sent;
    let volume = Volume::new();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    fs::write(&target, "").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&target, volume.path("workspace/pipe")).unwrap();
    let kind = snapshot_format::Kind::Fifo.into();
    let entry = Entry { name: "pipe".into(), kind, mode: 0o777, ..Entry::default() };
    let mut restore =
        Restore::new(volume.workspace.open_volume().unwrap(), volume.workspace.open_staging().unwrap());
    restore.step(Sent::Enter("workspace".into())).unwrap();
    let done = restore.step(Sent::Metadata(entry.encode_to_vec().into()));
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o600);
    assert!(matches!(done, Err(Stop::Fault(Fault::FileFailed(_)))), "{done:?}");
}

#[test]
fn a_restore_without_enough_space_changes_nothing() {
    let volume = Volume::new();
    let handle = volume.workspace.open_volume().unwrap();
    let mut restore = Restore::new(handle, volume.workspace.open_staging().unwrap());
    let needs = RestoreNeeds { bytes: u64::MAX, entries: 1 };
    let stopped = restore.step(restore_step::Step::Needs(needs));
    assert!(matches!(stopped, Err(Stop::Fault(Fault::NoSpace(_)))), "{stopped:?}");
}

/// The agent is an ordinary user. Files that their owner may not read by their mode are read nevertheless.
#[test]
fn files_without_permissions_come_back() {
    let test = std::thread::spawn(|| {
        if rustix::process::geteuid().is_root() {
            // Of this thread and those that it starts.
            let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        as_an_ordinary_user();
    });
    test.join().unwrap();
}

fn as_an_ordinary_user() {
    let volume = Volume::new();
    let mut chunks = Chunks::default();
    fs::create_dir_all(volume.path("workspace/closed/inner")).unwrap();
    fs::write(volume.path("workspace/closed/inner/a"), b"a").unwrap();
    fs::write(volume.path("workspace/secret"), b"secret").unwrap();
    let mode = |path: &str, mode| {
        fs::set_permissions(volume.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode_of = |path: &str| fs::metadata(volume.path(path)).unwrap().mode() & 0o7777;
    let file = fs::File::open(volume.path("workspace/secret")).unwrap();
    rustix::fs::fsetxattr(file, "user.test", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    let dir = fs::File::open(volume.path("workspace/closed")).unwrap();
    rustix::fs::fsetxattr(dir, "user.test", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    mode("workspace/secret", 0);
    mode("workspace/closed", 0);
    let a = volume.make("a", "", &mut chunks);
    assert_eq!((mode_of("workspace/secret"), mode_of("workspace/closed")), (0, 0));
    mode("workspace/closed", 0o755);
    fs::remove_dir_all(volume.path("workspace/closed")).unwrap();
    fs::remove_file(volume.path("workspace/secret")).unwrap();
    let b = volume.make("b", "a", &mut chunks);
    volume.restore(Some(&b.root), &a.root, &chunks).unwrap();
    assert_eq!((mode_of("workspace/secret"), mode_of("workspace/closed")), (0, 0));
    mode("workspace/closed", 0o755);
    mode("workspace/secret", 0o600);
    assert_eq!(fs::read(volume.path("workspace/closed/inner/a")).unwrap(), b"a");
    assert_eq!(fs::read(volume.path("workspace/secret")).unwrap(), b"secret");
    for path in ["workspace/secret", "workspace/closed"] {
        assert_eq!(attribute_of(&volume.path(path)).as_deref(), Some(&b"value"[..]), "{path}");
    }
}
