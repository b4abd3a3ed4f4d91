//! The plugin's death, and its upgrade.

use std::process::Stdio;

use crate::fixture::{DISK_MIB, OTHER_USER, USER, World, until};

const BASE: &str = "mkdir workspace && echo base >workspace/file";

#[test]
fn a_container_survives_the_plugins_death() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let container = world.start(&volume, USER);
    disk.release();
    world.exec(&container, "echo before >>/v/workspace/file");

    plugin.kill();
    world.exec(&container, "echo during >>/v/workspace/file");
    // The engine starts it again.
    until("the plugin answers", || plugin.answers());
    world.exec(&container, "echo after >>/v/workspace/file");
    let inspect = ["volume", "inspect", "--format", "{{.Mountpoint}}", &volume];
    assert!(world.engine.docker(&inspect).ends_with(&volume), "it sees the mount of its predecessor");
    assert!(disk.is_attached());

    world.remove_container(&container);
    until("the disk is not attached", || !disk.is_attached());
    disk.attach();
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == $'base\\nbefore\\nduring\\nafter' ]]");
    world.engine.docker(&["volume", "rm", &volume]);
    disk.release();
    until("the disk is not attached", || !disk.is_attached());
}

#[test]
fn a_volume_in_two_containers_is_unmounted_with_the_last() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let container = world.start(&volume, USER);
    disk.release();
    world.run(&volume, USER, "echo second >>/v/workspace/file");
    world.exec(&container, "[[ $(cat /v/workspace/file) == $'base\\nsecond' ]]");
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == $'base\\nsecond' ]]");
    world.remove_container(&container);
    until("the disk is not attached", || !disk.is_attached());
}

#[test]
fn many_sandboxes_start_at_the_same_time() {
    let Some(world) = World::on_machine() else { return };
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let users: Vec<u32> = (USER..USER + 8).collect();
    let disks: Vec<_> = users.iter().map(|user| world.disk(DISK_MIB, *user)).collect();
    let volumes: Vec<String> =
        users.iter().zip(&disks).map(|(user, disk)| world.volume(&plugin, disk, &base, *user)).collect();
    let script = "echo $UID >>/v/workspace/file && cat /v/workspace/file";
    for round in 1..=2 {
        let runs = users.iter().zip(&volumes).map(|(user, volume)| {
            let run = world.run_command(volume, *user, script).stdout(Stdio::piped()).spawn();
            (user, run.unwrap())
        });
        for (user, run) in runs.collect::<Vec<_>>() {
            let output = run.wait_with_output().unwrap();
            let expected = format!("base\n{}", format!("{user}\n").repeat(round));
            assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        }
    }
}

#[test]
fn two_versions_run_side_by_side_until_the_last_volume_of_the_old_one() {
    let Some(world) = World::on_machine() else { return };
    let (old, base) = (world.plugin(), world.base(BASE));
    let (one, two) = (world.disk(DISK_MIB, USER), world.disk(DISK_MIB, OTHER_USER));
    let first = world.volume(&old, &one, &base, USER);
    let container = world.start(&first, USER);

    let new = world.plugin_with(|config| config["Description"] = "A newer version".into());
    assert_ne!(old.name(), new.name());
    world.engine.docker(&["plugin", "enable", new.name()]);
    let second = world.volume(&new, &two, &base, OTHER_USER);
    world.run(&second, OTHER_USER, "echo new >>/v/workspace/file");
    world.exec(&container, "[[ $(cat /v/workspace/file) == base ]]");

    let error = world.engine.denied(&["plugin", "disable", old.name()]);
    assert!(error.contains("in use"), "{error}");
    world.remove_container(&container);
    world.run(&first, USER, "[[ $(cat /v/workspace/file) == base ]]");
    world.engine.denied(&["plugin", "disable", old.name()]);
    world.engine.docker(&["volume", "rm", &first]);
    world.engine.docker(&["plugin", "disable", old.name()]);
    world.engine.docker(&["plugin", "rm", old.name()]);
    world.run(&second, OTHER_USER, "[[ $(cat /v/workspace/file) == $'base\\nnew' ]]");
}
