//! The plugin has the rights that it needs, and fewer do not suffice.

use std::process::Stdio;

use serde_json::json;

use crate::fixture::{DISK_MIB, USER, World};

const BASE: &str = "mkdir workspace && echo base >workspace/file";

/// Capabilities of the plugin's processes: SYS_ADMIN, MKNOD, SETUID, SETGID, FSETID, FOWNER, DAC_READ_SEARCH,
/// DAC_OVERRIDE and CHOWN, by their numbers (linux/capability.h).
const CAPABILITIES: u64 = 1 << 21 | 1 << 27 | 1 << 7 | 1 << 6 | 1 << 4 | 1 << 3 | 1 << 2 | 1 << 1 | 1;

#[test]
fn the_process_gives_up_what_it_does_not_need() {
    let Some(world) = World::on_machine() else { return };
    let plugin = world.plugin();
    for process in plugin.processes() {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(field(set), format!("{CAPABILITIES:016x}"), "{set}");
        }
        assert_eq!(field("NoNewPrivs"), "1");

        let network = std::fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap();
        let interfaces: Vec<&str> =
            network.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        assert!(interfaces.iter().all(|name| !name.starts_with("eth")), "{interfaces:?}");
        let mounts = std::fs::read_to_string(format!("/proc/{process}/mounts")).unwrap();
        assert!(!mounts.contains("docker.sock"), "{mounts}");
        let disks = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/disks")).unwrap();
        assert!(disks.contains(" ro,"), "{disks}");
    }
}

#[test]
fn fewer_rights_do_not_suffice() {
    let Some(world) = World::on_machine() else { return };
    let base = world.base(BASE);
    // The engine tries to reach a plugin for some seconds, so the others are tried meanwhile.
    let without_one = ["CAP_SYS_ADMIN", "CAP_DAC_READ_SEARCH"].map(|kept| {
        let plugin = world.plugin_with(|config| config["Linux"]["Capabilities"] = json!([kept]));
        world.engine.command(&["plugin", "enable", plugin.name()]).stderr(Stdio::piped()).spawn().unwrap()
    });

    let plugin = world.plugin_with(|config| config["Linux"]["AllowAllDevices"] = json!(false));
    world.engine.docker(&["plugin", "enable", plugin.name()]);
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let output = world.try_run(&volume, USER, "true");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot open the disk's device"), "{output:?}");

    for enable in without_one {
        let output = enable.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("volumes.sock"), "{error}");
    }
}
