//! The life of a disk: it keeps its files, is never confused with another, and is removed completely.

use std::os::unix::fs::FileExt;

use sandboxd::engine::{DiskFault, DiskPool, Error};
use sandboxd::model::{Disk, UidSlot};

use crate::fixture::{Fixture, UID, has_device, until};

fn slot() -> UidSlot {
    UidSlot::of_uid(UID).unwrap()
}

fn fault<T>(result: Result<T, Error>) -> Option<DiskFault> {
    match result {
        Err(Error::Disk { source, .. }) => Some(source),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_outlive_the_container_and_the_helper() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    assert!(disks.sees_devices(), "a start can tell which disks are mounted");
    let disk = disks.make(64).await.unwrap();
    let first = fixture.sandbox(&disks, &disk, 64).await;
    let about = "stat -c '%U %a' ~ ~/../.local ~/../.local/tmp | tr '\\n' ' '; ls -A ~ | wc -l";
    assert_eq!(fixture.output(&first, about).await, "sandbox 755 sandbox 755 sandbox 700 0");
    let mount = fixture.output(&first, "grep ' /vercel/sandbox ' /proc/mounts").await;
    assert!(mount.contains(" ext4 rw,nosuid,nodev,noatime"), "{mount}");
    fixture.output(&first, "echo kept > file && mkdir d && echo deep > d/file && chmod 700 d").await;

    fixture.engine.remove(&first).await.unwrap();
    disks.close().await;
    let disks = fixture.disks().await;
    let second = fixture.sandbox(&disks, &disk, 64).await;
    assert_eq!(fixture.output(&second, "cat file d/file; stat -c %a d").await, "kept\ndeep\n700");

    // A container that is restarted without its disk has none. With its disk, the files are the same.
    let attached = disks.attach(&disk, slot()).await.unwrap();
    fixture.engine.restart(&second).await.unwrap();
    attached.release().await.unwrap();
    // The runtime accepts no exec for a moment after a restart.
    until("the container accepts commands", || async { fixture.run(&second, "true").await.0 == 0 }).await;
    assert_eq!(fixture.output(&second, "cat file").await, "kept");
    assert!(fixture.engine.restart(&second).await.is_err());

    fixture.engine.remove(&second).await.unwrap();
    disks.remove(disk.name()).await.unwrap();
    assert!(!has_device(disk.name()));
    disks.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_never_confused_with_another() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let (one, two) = (disks.make(64).await.unwrap(), disks.make(64).await.unwrap());

    let confused = Disk::new(one.name(), two.uuid()).unwrap();
    assert!(matches!(fault(disks.attach(&confused, slot()).await), Some(DiskFault::Mismatch(_))));
    let unknown = Disk::new("dsk_unknown", two.uuid()).unwrap();
    assert_eq!(fault(disks.attach(&unknown, slot()).await), Some(DiskFault::Absent));

    // An image without a file system is not one of ours.
    let images = fixture.images().await;
    let image = |disk: &Disk| {
        let path = images.join(format!("{}.img", disk.name()));
        std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    };
    let broken = disks.make(64).await.unwrap();
    image(&broken).write_all_at(&[0; 4096], 0).unwrap();
    assert!(matches!(fault(disks.attach(&broken, slot()).await), Some(DiskFault::Mismatch(_))));

    // An existing link to the other disk's device is replaced.
    let held = disks.attach(&two, slot()).await.unwrap();
    let twos = std::fs::read_link(images.join(format!("{}.dev", two.name()))).unwrap();
    let link = images.join(format!("{}.dev", one.name()));
    std::os::unix::fs::symlink(&twos, &link).unwrap();
    let attached = disks.attach(&one, slot()).await.unwrap();
    assert_ne!(std::fs::read_link(&link).unwrap(), twos);
    // A change in between is reported.
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&twos, &link).unwrap();
    assert!(matches!(fault(attached.release().await), Some(DiskFault::Mismatch(_))));
    // No link leads to a released disk.
    assert!(!link.exists() && std::fs::symlink_metadata(&link).is_err());

    assert_eq!(fault(disks.remove(two.name()).await), Some(DiskFault::Busy));
    drop(held);
    disks.remove(two.name()).await.unwrap();
    // Releasing again succeeds, and so does releasing unknown or invalid slots.
    for name in [two.name(), "dsk_unknown", "../../x", "a\nremove b", ""] {
        disks.remove(name).await.unwrap();
    }
    disks.remove(one.name()).await.unwrap();
    disks.close().await;
}

/// A disk that is missing from the list of attached ones would be removed, or its container replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_cannot_be_read_is_an_error() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let disk = disks.make(64).await.unwrap();
    let attached = disks.attach(&disk, slot()).await.unwrap();
    let device = std::fs::read_link(fixture.images().await.join(format!("{}.dev", disk.name()))).unwrap();
    let node = format!("/run/{}", device.file_name().unwrap().to_str().unwrap());
    // The helper creates the right node itself once this file is removed.
    fixture.run_in(&fixture.helper(), "0:0", &format!("rm -f {node} && touch {node}")).await;
    assert!(fault(disks.list().await).is_some());
    fixture.run_in(&fixture.helper(), "0:0", &format!("rm {node}")).await;
    assert!(disks.list().await.unwrap().iter().any(|found| found.name == disk.name() && found.attached));
    attached.release().await.unwrap();
    disks.remove(disk.name()).await.unwrap();
    disks.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_with_errors_is_repaired_before_use() {
    const STATE_AT: u64 = 1024 + 0x3a;
    const ERRORS: u8 = 2;
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let disk = disks.make(64).await.unwrap();
    let image = std::fs::File::open(fixture.images().await.join(format!("{}.img", disk.name()))).unwrap();
    let state = || {
        let mut state = [0];
        image.read_exact_at(&mut state, STATE_AT).unwrap();
        state[0]
    };
    let mark = format!("debugfs -w -R 'set_super_value state {ERRORS}' /disks/{}.img", disk.name());
    fixture.run_in(&fixture.helper(), "0:0", &mark).await;
    assert_eq!(state() & ERRORS, ERRORS);
    let sandbox = fixture.sandbox(&disks, &disk, 64).await;
    assert_eq!(state() & ERRORS, 0);
    fixture.output(&sandbox, "echo mended > file").await;
    fixture.engine.remove(&sandbox).await.unwrap();
    disks.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_helper_leaves_nothing_and_is_restarted() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let disk = disks.make(64).await.unwrap();
    let sandbox = fixture.sandbox(&disks, &disk, 64).await;
    let other = disks.make(64).await.unwrap();
    let attached = disks.attach(&other, slot()).await.unwrap();
    assert!(has_device(other.name()));
    let making = tokio::spawn({
        let disks = disks.clone();
        async move { disks.make(2048).await }
    });

    fixture.docker.kill_container(&fixture.helper(), None).await.unwrap();
    until("its devices are released", || async { !has_device(other.name()) }).await;
    assert_eq!(fault(attached.release().await), Some(DiskFault::HelperUnavailable));
    // The image was created completely before the kill, or not at all.
    let _ = making.await.unwrap();

    // The sandbox is not affected, and the next request finds a new helper.
    fixture.output(&sandbox, "echo on > file").await;
    let again = disks.attach(&other, slot()).await.unwrap();
    again.release().await.unwrap();
    let images = fixture.images().await;
    let names: Vec<_> = std::fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".img")), "{names:?}");
    let mounted = disks.list().await.unwrap();
    assert!(mounted.iter().any(|found| found.name == disk.name() && found.attached));
    assert!(mounted.iter().any(|found| found.name == other.name() && !found.attached));

    // The helper ends with the engine that it serves.
    drop(disks);
    until("the helper has ended", || async { !fixture.helper_exists().await }).await;
    fixture.output(&sandbox, "cat file").await;
    fixture.engine.remove(&sandbox).await.unwrap();
    until("the device is released", || async { !has_device(disk.name()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_helper_has_few_privileges() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let inside = |script: &'static str| {
        let helper = fixture.helper();
        let fixture = &fixture;
        async move { fixture.run_in(&helper, "0:0", script).await }
    };
    // CAP_MKNOD is number 27.
    let (_, said) =
        inside("grep -E 'Cap(Bnd|Eff)|NoNewPrivs|Seccomp:' /proc/1/status | cut -f 2 | xargs").await;
    assert_eq!(said.trim(), "0000000008000000 0000000008000000 1 2");
    assert_eq!(inside("ip -o link | wc -l").await.1.trim(), "1");
    assert_ne!(inside("touch /x").await.0, 0);
    assert_ne!(inside("touch /.sandbox/bin/x").await.0, 0);
    // The machine's own disk.
    let disk = "mknod /run/disk b $(cat /sys/class/block/[sv]da/dev | tr : ' ') && head -c 1 /run/disk";
    assert_ne!(inside(disk).await.0, 0);
    // Only its own volume and the agent's, and no other path of the machine.
    assert_eq!(inside("grep -cE ' /(disks|.sandbox/bin) ' /proc/mounts").await.1.trim(), "2");
    assert_ne!(inside("ls /var/run/docker.sock").await.0, 0);
    disks.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_disks_leave_nothing() {
    const DISKS: usize = 50;
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let all = (0..DISKS).map(|_| {
        let disks = disks.clone();
        async move {
            let disk = disks.make(64).await.unwrap();
            let attached = disks.attach(&disk, slot()).await.unwrap();
            let twice = disks.attach(&disk, slot()).await.unwrap();
            attached.release().await.unwrap();
            assert!(has_device(disk.name()));
            twice.release().await.unwrap();
            disks.remove(disk.name()).await.unwrap();
            disk
        }
    });
    let gone = futures::future::join_all(all).await;
    assert!(gone.iter().all(|disk| !has_device(disk.name())));
    assert_eq!(disks.list().await.unwrap(), []);
    assert_eq!(std::fs::read_dir(fixture.images().await).unwrap().count(), 0);
    let space = disks.space().await.unwrap();
    assert!(0 < space.free_bytes && space.free_bytes < space.total_bytes);
    disks.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_keeps_disks_ready() {
    let fixture = Fixture::new().await;
    let disks = fixture.disks().await;
    let pool = DiskPool::new(disks.clone(), 64);
    until("two disks are ready", || async { pool.names().len() == 2 }).await;
    let names = pool.names();
    let taken = [pool.take(64).await.unwrap(), pool.take(64).await.unwrap(), pool.take(64).await.unwrap()];
    assert!(taken[..2].iter().all(|disk| names.contains(&disk.name().to_owned())));
    assert!(!names.contains(&taken[2].name().to_owned()));
    let odd = pool.take(65).await.unwrap();
    assert!(!names.contains(&odd.name().to_owned()));
    until("the used disks are replaced", || async { pool.names().len() == 2 }).await;
    drop(pool);
    disks.close().await;
}
