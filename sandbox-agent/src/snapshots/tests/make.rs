//! What a snapshot reads and sends.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use agent_protocol::fault::Kind as Fault;
use bytes::Bytes;

use super::{Chunks, Stop, Volume, stat_cache};

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
