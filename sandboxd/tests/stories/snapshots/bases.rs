//! Sandboxes that share the files of a snapshot.

use std::path::PathBuf;

use bollard::query_parameters::{DisablePluginOptions, InspectContainerOptions, RemovePluginOptions};
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::sandbox::{CreateSandbox, Resources, SandboxState, WorkspaceSource};
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandboxd::model::Instance;
use sandboxd::model::layout::volume_name;
use serde_json::json;

use super::{FILL, snapshot};
use crate::support::harness::{
    Daemon, DaemonProcess, Home, SOON, docker, free_port, outcome, script, until, until_within,
};
use crate::support::metrics::Samples;
use crate::support::private_engine::OwnEngine;
use crate::support::state_copy::copy_dir;

/// A fingerprint without the link counts of directories, which are always 1 in an overlay.
async fn fingerprint(daemon: &Daemon, sandbox: &SandboxId) -> String {
    let text = super::fingerprint(daemon, sandbox).await;
    let line = |line: &str| match line.split_once(" d ") {
        Some((name, rest)) => format!("{name} d {}", rest.trim_end_matches(|c: char| !c.is_whitespace())),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Files enough for a base, and what a workspace can hold beside them.
fn fill() -> String {
    let small =
        FILL.replace("truncate -s 1G sparse", "truncate -s 8M sparse").replace("=500000000", "=5000000");
    format!(
        "{small}\nmkdir many\nfor i in $(seq 1200); do echo $i > many/$i; done\nhead -c 9M /dev/urandom > large"
    )
}

fn create_from(session_key: &str, snapshot_id: &SnapshotId) -> CreateSandbox {
    CreateSandbox {
        session_key: session_key.into(),
        workspace: Some(WorkspaceSource::snapshot(snapshot_id.clone())),
        ..CreateSandbox::default()
    }
}

pub(super) async fn copy_of(daemon: &Daemon, session_key: &str, snapshot_id: &SnapshotId) -> SandboxId {
    daemon.client.create_or_reconnect(&create_from(session_key, snapshot_id)).await.unwrap().sandbox_id
}

/// The driver of a sandbox's volume.
async fn driver_of(sandbox: &SandboxId) -> String {
    docker().await.inspect_volume(&volume_name(sandbox)).await.unwrap().driver
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_share_a_large_snapshot_and_change_only_their_own_files() {
    let daemon = Daemon::start().await;
    let original = daemon.sandbox("chat:1").await;
    daemon.output(&original, &fill()).await;
    let before = fingerprint(&daemon, &original).await;
    let snapshot_id = snapshot(&daemon, &original).await.snapshot.snapshot_id;
    daemon.client.delete(&original).await.unwrap();
    let (one, two) =
        tokio::join!(copy_of(&daemon, "chat:2", &snapshot_id), copy_of(&daemon, "chat:3", &snapshot_id));
    for copy in [&one, &two] {
        assert!(driver_of(copy).await.starts_with("sandboxd-volumes-"));
        assert!(
            daemon.client.get(copy).await.unwrap().posture.unwrap().base.is_some_and(|base| base.len() == 64)
        );
        assert_eq!(fingerprint(&daemon, copy).await, before);
    }
    // What a shell does to files: each changes a file of the base.
    let changes = "set -e; echo mine > many/1; mv many moved; mv src/deep src/shallow; rm -r .git; rm large
        echo more >> src/hard; cat src/main.rs; chmod 600 moved/2; mkdir many; echo new > many/3
        ln moved/4 moved/linked; echo both >> moved/linked; cat moved/4; ls many moved | wc -l";
    let expected = "fn main() {}\nmore\n4\nboth\n1205\n";
    assert_eq!(daemon.output(&one, changes).await, expected);
    assert_eq!(fingerprint(&daemon, &two).await, before, "another sandbox sees the changes");
    let changed = fingerprint(&daemon, &one).await;

    daemon.client.park(&one, false).await.unwrap();
    assert_eq!(fingerprint(&daemon, &one).await, changed, "a park loses changes");
    // A snapshot of it is whole, and so is a sandbox that begins with it.
    let second = snapshot(&daemon, &one).await.snapshot.snapshot_id;
    let third = copy_of(&daemon, "chat:4", &second).await;
    assert_eq!(fingerprint(&daemon, &third).await, changed);
    let undo = RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None };
    daemon.client.restore_snapshot(&one, &undo).await.unwrap();
    assert_eq!(fingerprint(&daemon, &one).await, before, "a restore over a base differs");
    for sandbox in [&one, &two, &third] {
        daemon.client.delete(sandbox).await.unwrap();
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_over_a_base_outlive_the_daemon_and_the_plugin() {
    let home = Home::new();
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let original = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    output(&daemon, &original, &fill()).await;
    let made = daemon.client.make_snapshot(&original, &MakeSnapshot::default()).await.unwrap();
    let create = create_from("chat:2", &made.snapshot.snapshot_id);
    let copy = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    output(&daemon, &copy, "echo mine > many/1; rm many/2").await;
    let (look, expected) = ("cat many/1 many/3; ls many | wc -l", "mine\n3\n1199\n");
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(output(&daemon, &copy, look).await, expected);

    daemon.client.park(&copy, false).await.unwrap();
    kill_plugin(&driver_of(&copy).await).await;
    assert_eq!(output(&daemon, &copy, look).await, expected);
    // The plugin is gone: the next start repairs it.
    let driver = driver_of(&copy).await;
    daemon.client.park(&copy, false).await.unwrap();
    let (disable, remove) = (DisablePluginOptions { force: Some(true) }, RemovePluginOptions { force: true });
    docker().await.disable_plugin(&driver, Some(disable)).await.unwrap();
    // The engine may answer with an empty body, which the client does not expect.
    let _ = docker().await.remove_plugin(&driver, Some(remove)).await;
    let first = daemon.client.run(&copy, &script(look)).await;
    assert!(first.is_err(), "the plugin was not needed");
    assert_eq!(output(&daemon, &copy, look).await, expected);
    // The base is known again after the restart.
    let create = create_from("chat:3", &made.snapshot.snapshot_id);
    let another = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    assert_eq!(driver_of(&another).await, driver_of(&copy).await);
    assert_eq!(output(&daemon, &another, "cat many/1").await, "1\n");
    daemon.kill().await;
}

/// A snapshot with 1,000 files, and a file of this many MiB that cannot be compressed.
pub(super) async fn large_snapshot(daemon: &Daemon, session_key: &str, mib: u32) -> SnapshotId {
    let sandbox = daemon.sandbox(session_key).await;
    let fill = format!("touch $(seq 1000); head -c {mib}M /dev/urandom > large; ln large linked");
    daemon.output(&sandbox, &fill).await;
    let made = snapshot(daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.client.delete(&sandbox).await.unwrap();
    made
}

pub(super) async fn is_over_base(sandbox: &SandboxId) -> bool {
    driver_of(sandbox).await != "local"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_makes_room_for_another_unless_a_sandbox_needs_it() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_BASES_MB", "20")).await;
    let (one, two) =
        (large_snapshot(&daemon, "chat:1", 12).await, large_snapshot(&daemon, "chat:2", 12).await);
    let first = copy_of(&daemon, "chat:3", &one).await;
    assert!(is_over_base(&first).await);
    daemon.client.park(&first, false).await.unwrap();
    // There is no room for both, and the first is needed by a parked sandbox.
    let second = copy_of(&daemon, "chat:4", &two).await;
    assert!(!is_over_base(&second).await);
    let look = "ls | wc -l; stat -c %h large; cmp large linked";
    for sandbox in [&first, &second] {
        assert_eq!(daemon.output(sandbox, look).await, "1002\n2\n");
    }
    daemon.client.delete(&first).await.unwrap();
    let third = copy_of(&daemon, "chat:5", &two).await;
    assert!(is_over_base(&third).await);
    assert_eq!(daemon.output(&third, look).await, "1002\n2\n");
    let fourth = copy_of(&daemon, "chat:6", &one).await;
    assert!(!is_over_base(&fourth).await);
    daemon.stop().await;
}

/// Room for the image, a few disks, and a base beyond the reserve for writes.
pub(super) const ENGINE_DISK: u64 = 7 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_no_sandbox_needs_makes_room_for_a_sandbox() {
    let engine = OwnEngine::start_on_disk(&Home::new().config().image, ENGINE_DISK);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let instance = {
        let daemon = Daemon::start_in(home).await;
        let snapshot = large_snapshot(&daemon, "chat:1", 200).await;
        let copy = copy_of(&daemon, "chat:2", &snapshot).await;
        daemon.client.delete(&copy).await.unwrap();
        let instance = daemon.home.instance().unwrap();
        assert_eq!(bases_in(&engine, &instance), 1);
        let _ballast = engine.fill((1 << 30) - (100 << 20));
        daemon.sandbox("chat:3").await;
        daemon.stop().await;
        instance
    };
    assert_eq!(bases_in(&engine, &instance), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_over_a_base_survives_a_stop_and_start_of_the_engine() {
    let mut engine = OwnEngine::start(&Home::new().config().image);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
    let copy = copy_of(&daemon, "chat:2", &snapshot).await;
    assert_eq!(bases_in(&engine, &daemon.home.instance().unwrap()), 1);
    daemon.output(&copy, "echo mine > 1; rm 2; sync").await;
    let (look, expected) = ("cat 1; ls | wc -l", "mine\n1001\n");
    // An engine reads the option when it starts.
    for (live_restore, next) in [(false, true), (true, true), (true, false)] {
        engine.stop();
        engine.start_again(next);
        until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
        // Before the daemon has noticed the container's end, a request fails and can be repeated.
        until_within(2 * SOON, "the sandbox has its files", || async {
            let Ok(records) = daemon.client.run(&copy, &script(look)).await else { return false };
            assert_eq!(outcome(records).await.text(), expected, "live restore: {live_restore}");
            true
        })
        .await;
        daemon.client.park(&copy, false).await.unwrap();
        assert_eq!(daemon.output(&copy, look).await, expected, "after a park, live restore: {live_restore}");
        let another = copy_of(&daemon, "chat:3", &snapshot).await;
        assert_eq!(daemon.output(&another, look).await, "1002\n");
        daemon.client.delete(&another).await.unwrap();
    }
    daemon.stop().await;
}

/// Number of bases on an engine.
pub(super) fn bases_in(engine: &OwnEngine, instance: &Instance) -> usize {
    let volume = format!("sandboxd-disks-{}", instance.id());
    let inspect = ["volume", "inspect", "--format", "{{.Mountpoint}}", &volume];
    let output = engine.docker(&inspect).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let names = std::fs::read_dir(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
    names.filter(|name| name.as_ref().unwrap().path().extension().is_some_and(|end| end == "erofs")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_stays_while_a_disk_without_a_sandbox_may_need_it() {
    let mut home = Home::new().set("SANDBOXD_BASES_MB", "20");
    let backup = home.path().join("backup");
    let daemon = Daemon::start_in(home).await;
    let (one, two) =
        (large_snapshot(&daemon, "chat:1", 12).await, large_snapshot(&daemon, "chat:2", 12).await);
    home = daemon.stop().await;
    // SQLite closes a database in a thread of its own. A copy that is made meanwhile is torn.
    until("the index is closed", || async { !home.path().join("state/chunks.sqlite-wal").exists() }).await;
    copy_dir(&home.path().join("state"), &backup);
    let daemon = Daemon::start_in(home).await;
    let first = copy_of(&daemon, "chat:3", &one).await;
    assert!(is_over_base(&first).await);
    home = daemon.stop().await;
    // An older backup does not know the sandbox.
    std::fs::remove_dir_all(home.path().join("state")).unwrap();
    copy_dir(&backup, &home.path().join("state"));
    let daemon = Daemon::start_in(home).await;
    let second = copy_of(&daemon, "chat:4", &two).await;
    assert!(!is_over_base(&second).await, "a base was removed that an unknown sandbox needs");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_bases_each_sandbox_gets_a_copy() {
    let agent = tempfile::tempdir().unwrap();
    std::fs::copy(test_daemon::agent_program(), agent.path().join("sandbox-agent")).unwrap();
    let no_plugin =
        Home::new().set("SANDBOXD_AGENT_PATH", agent.path().join("sandbox-agent").to_str().unwrap());
    // A program that does not start.
    let broken = tempfile::tempdir().unwrap();
    std::fs::copy(test_daemon::agent_program(), broken.path().join("sandbox-agent")).unwrap();
    std::fs::copy("/bin/false", broken.path().join("sandboxd-volumes")).unwrap();
    let broken_plugin =
        Home::new().set("SANDBOXD_AGENT_PATH", broken.path().join("sandbox-agent").to_str().unwrap());
    let off = Home::new().set("SANDBOXD_BASES_MB", "0");
    let no_quota = Home::new().set("SANDBOXD_DISK_QUOTA", "off");
    for (home, counted) in [(no_plugin, 2.0), (broken_plugin, 2.0), (off, 0.0), (no_quota, 2.0)] {
        let daemon = Daemon::start_in(home).await;
        let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
        for session_key in ["chat:2", "chat:3"] {
            let copy = copy_of(&daemon, session_key, &snapshot).await;
            assert!(!is_over_base(&copy).await);
            assert_eq!(daemon.output(&copy, "ls | wc -l; cmp large linked").await, "1002\n");
        }
        assert_eq!(Samples::of(&daemon).await.sum("sandboxd_base_copies_total", &[]), counted);
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_was_lost_is_made_again_from_its_snapshot() {
    let daemon = Daemon::start().await;
    let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
    let copy = copy_of(&daemon, "chat:2", &snapshot).await;
    daemon.output(&copy, "echo mine > own; rm 1").await;
    daemon.client.park(&copy, false).await.unwrap();
    let disks = format!("sandboxd-disks-{}", daemon.home.instance().unwrap().id());
    let disks = docker().await.inspect_volume(&disks).await.unwrap().mountpoint;
    let base = daemon.client.get(&copy).await.unwrap().posture.unwrap().base.unwrap();
    std::fs::remove_file(format!("{disks}/{base}.erofs")).unwrap();

    let failed = daemon.client.touch(&copy, None).await.unwrap_err();
    assert_eq!(failed.code(), Some(ErrorCode::Unavailable), "{failed}");
    assert!(failed.to_string().contains(&format!("its base {base} is missing")), "{failed}");
    let sandbox_client::Error::Refused { body, .. } = &failed else { panic!("{failed:?}") };
    assert_eq!(json!(body.details), json!({ "reason": "base_missing", "base": base }));
    assert_eq!(daemon.client.get(&copy).await.unwrap().state, SandboxState::Parked);
    let other = copy_of(&daemon, "chat:3", &snapshot).await;
    assert!(is_over_base(&other).await);
    assert_eq!(daemon.output(&copy, "cat own; ls | wc -l; cmp linked large").await, "mine\n1002\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_base_is_named_and_not_used_for_new_sandboxes() {
    let daemon = Daemon::start().await;
    let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
    let copy = copy_of(&daemon, "chat:2", &snapshot).await;
    daemon.output(&copy, "echo mine > own").await;
    daemon.client.park(&copy, false).await.unwrap();
    let disks = format!("sandboxd-disks-{}", daemon.home.instance().unwrap().id());
    let disks = docker().await.inspect_volume(&disks).await.unwrap().mountpoint;
    let base = daemon.client.get(&copy).await.unwrap().posture.unwrap().base.unwrap();
    let image = PathBuf::from(format!("{disks}/{base}.erofs"));
    let intact = std::fs::read(&image).unwrap();
    let mut damaged = intact.clone();
    damaged[..4096].fill(0);
    std::fs::write(&image, damaged).unwrap();

    let failed = daemon.client.touch(&copy, None).await.unwrap_err();
    assert_eq!(failed.code(), Some(ErrorCode::Unavailable), "{failed}");
    assert!(failed.to_string().contains(&format!("its base {base} cannot be mounted")), "{failed}");
    let sandbox_client::Error::Refused { body, .. } = &failed else { panic!("{failed:?}") };
    assert_eq!(json!(body.details), json!({ "reason": "base_damaged", "base": base }));
    // A new sandbox needs no base.
    let look = "ls | wc -l; cmp large linked";
    let other = copy_of(&daemon, "chat:3", &snapshot).await;
    assert!(!is_over_base(&other).await);
    assert_eq!(daemon.output(&other, look).await, "1002\n");
    assert!(image.exists(), "a damaged base was removed that a sandbox needs");

    // The operator moves the image away, and the next sandbox makes the base again.
    std::fs::rename(&image, image.with_extension("damaged")).unwrap();
    let third = copy_of(&daemon, "chat:4", &snapshot).await;
    assert!(is_over_base(&third).await);
    assert!(std::fs::read(&image).unwrap() == intact);
    assert_eq!(daemon.output(&copy, "cat own; ls | wc -l; cmp large linked").await, "mine\n1003\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_holds_over_a_base() {
    let daemon = Daemon::start().await;
    let snapshot = large_snapshot(&daemon, "chat:1", 30).await;
    let create = CreateSandbox {
        resources: Some(Resources { disk_mb: Some(64), ..Resources::default() }),
        ..create_from("chat:2", &snapshot)
    };
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    assert!(is_over_base(&sandbox).await);
    // Only changed files of the base count.
    let full = daemon.run(&sandbox, "head -c 40M /dev/urandom > own; echo x >> large").await;
    assert_ne!(full.exit_code, 0, "{full:?}");
    let changed = "rm own; echo x >> large; tail -c 2 large; cmp large linked && ls | wc -l";
    assert_eq!(daemon.output(&sandbox, changed).await, "x\n1002\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_a_base_is_written_leaves_nothing_of_it() {
    let home = Home::new();
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let original = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    output(&daemon, &original, "head -c 200M /dev/urandom > large").await;
    let made = daemon.client.make_snapshot(&original, &MakeSnapshot::default()).await.unwrap();
    let instance = home.instance().unwrap();
    let carrier = format!("sandboxd-disks-{}-base", instance.id());
    let engine = docker().await;
    let is_writing =
        async || engine.inspect_container(&carrier, None::<InspectContainerOptions>).await.is_ok();
    let create = create_from("chat:2", &made.snapshot.snapshot_id);
    let (client, request) = (daemon.client.clone(), create.clone());
    let creating = tokio::spawn(async move { client.create_or_reconnect(&request).await });
    until("the base is being written", is_writing).await;
    daemon.kill().await;
    creating.await.unwrap().unwrap_err();

    let daemon = DaemonProcess::start(&home, port).await;
    assert!(!is_writing().await, "the container for the upload is left");
    let disks = engine.inspect_volume(&format!("sandboxd-disks-{}", instance.id())).await.unwrap().mountpoint;
    let left = |end: &str| {
        let names = std::fs::read_dir(&disks).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(end)).count()
    };
    // The ready disks that the new daemon makes end with `new` too while they are written.
    assert_eq!((left(".erofs"), left(".erofs.new")), (0, 0));
    let copy = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    assert!(is_over_base(&copy).await);
    assert_eq!(output(&daemon, &copy, "stat -c %s large").await, "209715200\n");
    assert_eq!((left(".erofs"), left(".erofs.new")), (1, 0));
    daemon.kill().await;
}

async fn output(daemon: &DaemonProcess, sandbox: &SandboxId, commands: &str) -> String {
    let outcome = outcome(daemon.client.run(sandbox, &script(commands)).await.unwrap()).await;
    assert_eq!(outcome.exit_code, 0, "{commands}: {outcome:?}");
    outcome.text()
}

/// Kills the plugin's processes, and waits until the engine has started it again.
async fn kill_plugin(name: &str) {
    let id = docker().await.inspect_plugin(name).await.unwrap().id.unwrap();
    let processes = || {
        let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            entry.unwrap().file_name().to_str().and_then(|name| name.parse::<i32>().ok())
        });
        let is_its = |pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(&id))
        };
        pids.filter(is_its).collect::<Vec<i32>>()
    };
    let before = processes();
    assert!(!before.is_empty(), "the plugin does not run");
    for pid in &before {
        kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).unwrap();
    }
    until("the engine has started the plugin again", async || {
        processes().iter().any(|pid| !before.contains(pid))
    })
    .await;
}
