//! What the plugin rejects, and what is left then: nothing.

use std::fs;
use std::os::unix::fs::symlink;

use crate::fixture::{DISK_MIB, OTHER_USER, USER, World, until};

const BASE: &str = "mkdir workspace && echo base >workspace/file";

#[test]
fn options_that_are_not_valid_are_rejected_by_name() {
    let Some(world) = World::on_machine() else { return };
    let plugin = world.plugin();
    let digest = "0".repeat(64);
    let (base, uid) = (format!("base={digest}"), "uid=20001");
    for (options, message) in [
        (vec!["disk=../etc", &base, uid], "disk must have 1 to 64 characters of a-z, A-Z, 0-9 and _"),
        (vec!["disk=a", "base=../etc", uid], "base must have 1 to 64 characters and exactly 64"),
        (vec!["disk=a", &base, "uid=0"], "uid must be a number from 1 to 65533"),
        (vec!["disk=a", &base], "the option uid is missing"),
        (vec!["disk=a", &base, uid, "o=suid"], "the option is not known"),
    ] {
        let options: Vec<&str> = options.iter().flat_map(|option| ["--opt", option]).collect();
        let create = ["volume", "create", "--driver", plugin.name()];
        let error = world.engine.denied(&[&create[..], &options, &["sbxvolume-rejected"]].concat());
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(world.engine.docker(&["volume", "ls", "--quiet", "--filter", "name=sbxvolume-rejected"]), "");
}

#[test]
fn only_the_attached_disk_and_an_existing_base_are_mounted() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let (disk, other) = (world.disk(DISK_MIB, USER), world.disk(DISK_MIB, OTHER_USER));
    let volume = world.volume(&plugin, &disk, &base, USER);
    let rejected = |message: &str| {
        let output = world.try_run(&volume, USER, "true");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(message), "{error}");
    };

    let right = fs::read_link(disk.link()).unwrap();
    fs::remove_file(disk.link()).unwrap();
    rejected("is not attached");
    for wrong in [&*fs::read_link(other.link()).unwrap(), "/dev/vda".as_ref(), "/disks/x".as_ref()] {
        symlink(wrong, disk.link()).unwrap();
        rejected("does not lead to the disk's device");
        fs::remove_file(disk.link()).unwrap();
    }
    symlink(right, disk.link()).unwrap();

    let missing = world.volume(&plugin, &other, &"0".repeat(64), OTHER_USER);
    let output = world.try_run(&missing, OTHER_USER, "true");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no base 0000"), "{output:?}");

    // Nothing of the failures remains, so the right one works, and both disks can be detached.
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == base ]]");
    disk.release();
    other.release();
    until("no disk is attached", || !disk.is_attached() && !other.is_attached());
}

#[test]
fn a_disk_keeps_its_base() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    world.run(&volume, USER, "echo own >>/v/workspace/file");
    world.engine.docker(&["volume", "rm", &volume]);

    // The images have the same UUID, so the kernel would accept both.
    let other = world.base("mkdir workspace other && echo other >workspace/file && echo more >more");
    let volume = world.volume(&plugin, &disk, &other, USER);
    let output = world.try_run(&volume, USER, "cat /v/workspace/file");
    assert!(!output.status.success(), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains(&format!("the disk was used over another base, {base}")), "{error}");
    world.engine.docker(&["volume", "rm", &volume]);

    let volume = world.volume(&plugin, &disk, &base, USER);
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == $'base\\nown' ]]");
}

#[test]
fn a_damaged_base_or_disk_is_reported() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let image = disk.image().with_file_name(format!("{}.erofs", "1".repeat(64)));
    let mut damaged = world.image_of(&base);
    damaged[1024] ^= 1;
    fs::write(&image, damaged).unwrap();
    let volume = world.volume(&plugin, &disk, &"1".repeat(64), USER);
    let output = world.try_run(&volume, USER, "true");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the kernel cannot mount the base"),
        "{output:?}"
    );
    disk.release();
    until("the disk is not attached", || !disk.is_attached());

    let file = fs::File::options().write(true).open(disk.image()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], 0).unwrap();
    disk.attach();
    let output = world.try_run(&volume, USER, "true");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the kernel cannot mount the disk"),
        "{output:?}"
    );
}
