//! Any tree is restored after any changes.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use proptest::prelude::*;

use super::{Chunks, Restore, Volume, fingerprint, steps};

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
