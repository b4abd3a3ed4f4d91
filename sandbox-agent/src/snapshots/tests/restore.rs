//! What a restore writes, and where it does not.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

use agent_protocol::fault::Kind as Fault;
use agent_protocol::v1::{RestoreNeeds, restore_step};
use bytes::Bytes;
use prost::Message;
use rustix::process::{Gid, Uid};
use snapshot_format::Entry;

use super::{Chunks, Restore, Stop, Volume, attribute_of, fingerprint};

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
