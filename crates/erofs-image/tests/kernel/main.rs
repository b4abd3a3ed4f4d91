//! The kernel reads what this crate writes.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod model;
mod mounted;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use erofs_image::BLOCK_BYTES;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use self::model::{Content, Entry, trees};
use self::mounted::Mounted;

/// Number of random trees. Each is mounted, which takes a few milliseconds.
const CASES: u32 = 100;

#[test]
fn the_kernel_reads_every_tree() {
    if mounted::skipped() {
        return;
    }
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&trees(), |tree| {
        let image = model::write(&tree);
        let mounted = Mounted::new(image.path());
        prop_assert_eq!(mounted.read(), tree);
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn a_directory_has_more_entries_than_a_block() {
    if mounted::skipped() {
        return;
    }
    let file = Entry::of(Content::File(b"x".to_vec()));
    let dir = Entry::of(Content::Directory);
    let mut tree: BTreeMap<Vec<u8>, Entry> = [(b"dir".to_vec(), dir)].into();
    // Some names are before `.` in their order.
    tree.extend((0..5000).map(|number| (format!("dir/-{number:x>40}").into_bytes(), file.clone())));
    tree.extend((0..5000).map(|number| (format!("dir/{number}").into_bytes(), file.clone())));
    let image = model::write(&tree);
    let mounted = Mounted::new(image.path());
    assert_eq!(mounted.read(), tree);
    for name in ["dir/-", "dir/5000", "dir/~", "dir/ "] {
        assert!(!mounted.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_hole_takes_no_space() {
    if mounted::skipped() {
        return;
    }
    let size = 10 << 30;
    let mut tree = erofs_image::Tree::new(Entry::of(Content::Directory).attributes()).unwrap();
    let attributes = Entry::of(Content::File(Vec::new())).attributes();
    let sparse = tree.file(erofs_image::Tree::ROOT, b"sparse", attributes, size).unwrap();
    let plan = erofs_image::Plan::new(tree, [1; 16]).unwrap();
    let image = tempfile::NamedTempFile::new().unwrap();
    plan.write_tree(image.as_file()).unwrap();
    plan.write(image.as_file(), sparse, size - 3, b"end").unwrap();
    assert!(image.as_file().metadata().unwrap().blocks() * 512 <= 4 * BLOCK_BYTES);

    let mounted = Mounted::new(image.path());
    let file = File::open(mounted.path().join("sparse")).unwrap();
    let mut end = [1; 6];
    file.read_exact_at(&mut end, size - 6).unwrap();
    assert_eq!((file.metadata().unwrap().len(), &end), (size, b"\0\0\0end"));
}

#[test]
fn equal_trees_become_equal_images() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..20 {
        let tree = trees().new_tree(&mut runner).unwrap().current();
        let (one, two) = (model::write(&tree), model::write(&tree));
        assert_eq!(std::fs::read(one.path()).unwrap(), std::fs::read(two.path()).unwrap());
    }
}

#[test]
fn only_the_bytes_of_files_can_be_written() {
    let attributes = Entry::of(Content::Directory).attributes();
    let mut tree = erofs_image::Tree::new(attributes.clone()).unwrap();
    let file = tree.file(erofs_image::Tree::ROOT, b"f", attributes, 10).unwrap();
    let plan = erofs_image::Plan::new(tree, [0; 16]).unwrap();
    let image = tempfile::NamedTempFile::new().unwrap();
    plan.write_tree(image.as_file()).unwrap();
    plan.write(image.as_file(), file, 8, b"ab").unwrap();
    for (node, offset) in [(file, 9), (file, u64::MAX), (erofs_image::Tree::ROOT, 0)] {
        assert!(plan.write(image.as_file(), node, offset, b"ab").is_err());
    }
}
