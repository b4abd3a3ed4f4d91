//! Ownership of engine objects and rows. Sandboxes that the engine does not list are not deleted, and objects without a
//! row are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::RemoveVolumeOptions;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use sandboxd::model::layout::volume_name;
use tokio::time::timeout;

use crate::support::engine_view::objects_of;
use crate::support::fault_injection::{connect, execute};
use crate::support::harness::{Daemon, DaemonProcess, Home, docker, free_port, until};
use crate::support::private_engine::OwnEngine;
use crate::support::state_copy::copy_dir;

/// Time within which a start must have failed.
const REFUSAL: Duration = Duration::from_secs(30);

/// Workspaces without disks, so that the volume is all that exists of one.
fn plain() -> Home {
    Home::new().set("SANDBOXD_DISK_QUOTA", "off")
}

fn state_dir(home: &Home) -> PathBuf {
    home.path().join("state")
}

async fn refusal(home: &Home) -> String {
    let mut serve = home.program(&["serve"]);
    serve.env("SANDBOXD_PORT", free_port().to_string());
    let output =
        timeout(REFUSAL, serve.output()).await.expect("the start neither succeeds nor fails").unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

async fn state(client: &Client, sandbox: &SandboxId) -> Option<SandboxState> {
    let listed = client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    listed.into_iter().find(|found| found.sandbox_id == *sandbox).map(|found| found.state)
}

async fn create(client: &Client, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(client.create_or_reconnect(&request).await?.sandbox_id)
}

/// A parked sandbox with a file.
async fn parked(daemon: &Daemon, key: &str) -> SandboxId {
    let sandbox = daemon.sandbox(key).await;
    daemon.output(&sandbox, &format!("echo {key} > file")).await;
    daemon.client.park(&sandbox, false).await.unwrap();
    sandbox
}

async fn forget(home: &Home, sandboxes: &[&SandboxId]) {
    let mut database = connect(&state_dir(home)).await;
    for sandbox in sandboxes {
        let delete = sqlx::query("DELETE FROM sandboxes WHERE id = ?").bind(sandbox.as_str());
        delete.execute(&mut database).await.unwrap();
    }
}

async fn remove_volume(name: &str) {
    docker().await.remove_volume(name, Some(RemoveVolumeOptions { force: true })).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_its_data_loses_no_sandbox() {
    let mut engine = OwnEngine::start(&Home::new().config().image);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let (one, two) = (parked(&daemon, "chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&two, "echo kept > file").await;

    // Once while the daemon runs.
    engine.stop();
    engine.unmount(true);
    engine.start_again(false);
    until("it reports another engine", || async {
        matches!(daemon.client.ready().await, Err(Error::Refused { body, .. }) if body.error.contains("no marker"))
    })
    .await;
    for sandbox in [&one, &two] {
        let error = daemon.client.touch(sandbox, None).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
    }
    let error = create(&daemon.client, "chat:3").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
    engine.stop();
    engine.unmount(false);
    engine.start_again(false);
    until("the daemon is ready", || async { daemon.client.ready().await.is_ok() }).await;
    assert_eq!(daemon.output(&one, "cat file").await, "chat:1\n");
    assert_eq!(daemon.output(&two, "cat file").await, "kept\n");

    // Once across a start.
    daemon.client.park(&one, false).await.unwrap();
    let home = daemon.stop().await;
    engine.stop();
    engine.unmount(true);
    engine.start_again(false);
    let said = refusal(&home).await;
    assert!(said.contains("none of the 2 sandboxes") && said.contains("accept-engine"), "{said}");
    engine.stop();
    engine.unmount(false);
    engine.start_again(false);
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&one, "cat file").await, "chat:1\n");
    assert_eq!(daemon.output(&two, "cat file").await, "kept\n");
    for sandbox in [&one, &two] {
        daemon.client.delete(sandbox).await.unwrap();
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_its_key_stops_the_start() {
    let daemon = Daemon::start().await;
    let sandbox = parked(&daemon, "chat:1").await;
    let home = daemon.stop().await;
    let (key, away) = (state_dir(&home).join("instance.key"), home.path().join("away.key"));
    std::fs::rename(&key, &away).unwrap();
    let said = refusal(&home).await;
    assert!(said.contains("instance.key is missing") && said.contains("backup"), "{said}");
    assert!(!key.exists(), "a new key would orphan every sandbox");
    std::fs::write(&key, [7; 32]).unwrap();
    let said = refusal(&home).await;
    assert!(said.contains("belongs to the instance"), "{said}");
    std::fs::rename(&away, &key).unwrap();
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "chat:1\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_without_its_disk_is_lost_until_the_disk_is_back() {
    let daemon = Daemon::start().await;
    let sandbox = parked(&daemon, "chat:1").await;
    let instance = daemon.home.instance().unwrap();
    let volume = docker().await.inspect_volume(&format!("sandboxd-disks-{}", instance.id())).await.unwrap();
    let of_sandbox = docker().await.inspect_volume(&volume_name(&sandbox)).await.unwrap();
    let disk = PathBuf::from(&of_sandbox.options["device"]).with_extension("img");
    let away = Path::new(&volume.mountpoint).join("away.kept");
    std::fs::rename(&disk, &away).unwrap();
    for key in ["chat:1", "chat:1"] {
        let error = create(&daemon.client, key).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::WrongState), "{error:?}");
        assert!(error.to_string().contains("lost"), "{error}");
    }
    assert_eq!(state(&daemon.client, &sandbox).await, Some(SandboxState::Lost));
    let refused = [
        daemon.client.touch(&sandbox, None).await.map(drop),
        daemon.client.park(&sandbox, true).await.map(drop),
        daemon.client.delete_if_parked(&sandbox).await.map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::WrongState));
    }

    // A started daemon also reports it as lost.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(state(&daemon.client, &sandbox).await, Some(SandboxState::Lost));
    std::fs::rename(&away, &disk).unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "chat:1\n");

    // If the disk is never found, deleting the sandbox frees its session.
    daemon.client.park(&sandbox, false).await.unwrap();
    std::fs::remove_file(&disk).unwrap();
    assert!(create(&daemon.client, "chat:1").await.is_err());
    daemon.client.delete(&sandbox).await.unwrap();
    let another = daemon.sandbox("chat:1").await;
    assert_eq!(daemon.output(&another, "ls").await, "");
    daemon.client.delete(&another).await.unwrap();
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_without_its_volume_is_lost_until_the_volume_is_back() {
    let daemon = Daemon::start_in(plain()).await;
    let (sandbox, other) = (parked(&daemon, "chat:1").await, parked(&daemon, "chat:2").await);
    let name = volume_name(&sandbox);
    let volume = docker().await.inspect_volume(&name).await.unwrap();
    let home = daemon.stop().await;
    remove_volume(&name).await;
    let daemon = Daemon::start_in(home).await;
    assert_eq!(state(&daemon.client, &sandbox).await, Some(SandboxState::Lost));
    assert_eq!(daemon.output(&other, "cat file").await, "chat:2\n");
    let again = VolumeCreateRequest {
        name: Some(name),
        labels: Some(volume.labels),
        ..VolumeCreateRequest::default()
    };
    docker().await.create_volume(again).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(
        state(&daemon.client, &sandbox).await,
        Some(SandboxState::Parked),
        "the sandbox recovers by itself"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_row_are_kept_for_a_grace_period() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_ORPHAN_GRACE_MS", "3600000")).await;
    let known = [parked(&daemon, "chat:1").await, parked(&daemon, "chat:2").await];
    let orphan = parked(&daemon, "chat:3").await;
    let home = daemon.stop().await;
    let all = objects_of(&home).await;
    forget(&home, &[&orphan]).await;

    let mut daemon = Daemon::start_in(home).await;
    let listed = daemon.client.orphans().await.unwrap().orphans;
    let kinds: Vec<_> = listed.iter().map(|orphan| orphan.kind.as_str()).collect();
    assert_eq!(kinds, ["workspace", "disk"], "{listed:?}");
    assert_eq!(listed[0].name, orphan.as_str());
    assert!(listed.iter().all(|orphan| orphan.removed_after.is_some()), "{listed:?}");
    assert_eq!(objects_of(&daemon.home).await, all, "nothing is removed at once");
    // The grace period continues across a start, and ends.
    let home = daemon.stop().await.set("SANDBOXD_ORPHAN_GRACE_MS", "1000");
    daemon = Daemon::start_in(home).await;
    while !daemon.client.orphans().await.unwrap().orphans.is_empty() {
        daemon = Daemon::start_in(daemon.stop().await).await;
    }
    assert_eq!(objects_of(&daemon.home).await.len(), 2);

    // If most objects would be removed, the rows are wrong, not the objects.
    let mut home = daemon.stop().await;
    forget(&home, &[&known[0], &known[1]]).await;
    for _ in 0..3 {
        home = Daemon::start_in(home).await.stop().await;
    }
    let daemon = Daemon::start_in(home).await;
    let listed = daemon.client.orphans().await.unwrap().orphans;
    assert_eq!(listed.len(), 4, "{listed:?}");
    assert!(listed.iter().all(|orphan| orphan.removed_after.is_none()), "{listed:?}");
    assert_eq!(objects_of(&daemon.home).await.len(), 2);
    // The operator decides.
    for orphan in &listed {
        daemon.client.remove_orphan(&orphan.name).await.unwrap();
    }
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    assert_eq!(daemon.client.orphans().await.unwrap().orphans, []);
    let error = daemon.client.remove_orphan(&listed[0].name).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound), "{error:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_keeps_sandboxes_created_since() {
    let daemon = Daemon::start().await;
    let old = parked(&daemon, "chat:1").await;
    let home = daemon.stop().await;
    let backup = home.path().join("backup");
    copy_dir(&state_dir(&home), &backup);
    let daemon = Daemon::start_in(home).await;
    let (made, runs) = (parked(&daemon, "chat:2").await, daemon.sandbox("chat:3").await);
    daemon.output(&runs, "echo kept > file").await;
    let home = daemon.stop().await;
    let before = objects_of(&home).await;
    // In the same place, and in another directory.
    for in_place in [true, false] {
        let state = state_dir(&home);
        if !in_place {
            std::fs::remove_dir_all(&state).unwrap();
        }
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(state.join(format!("sandboxd.db{end}")));
        }
        copy_dir(&backup, &state);
        let mut process = DaemonProcess::start(&home, free_port()).await;
        for sandbox in [&old, &made] {
            assert_eq!(state_of(&process, sandbox).await, Some(SandboxState::Parked));
        }
        assert_eq!(state_of(&process, &runs).await, Some(SandboxState::Running));
        assert_eq!(objects_of(&home).await, before);
        assert_eq!(process.client.orphans().await.unwrap().orphans, []);
        let pid = Pid::from_raw(process.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(process.child.wait().await.unwrap().success());
    }
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&made, "cat file").await, "chat:2\n");
    assert_eq!(daemon.output(&runs, "cat file").await, "kept\n");
    daemon.stop().await;
}

async fn state_of(process: &DaemonProcess, sandbox: &SandboxId) -> Option<SandboxState> {
    state(&process.client, sandbox).await
}

/// A home with a copy of another home's state directory.
fn copy_of(home: &Home) -> Home {
    let copy = Home::new();
    copy_dir(&state_dir(home), &state_dir(&copy));
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_beside_its_original_does_not_start() {
    let daemon = Daemon::start().await;
    let copied = copy_of(&daemon.home);
    let sandbox = daemon.sandbox("chat:1").await;
    let said = refusal(&copied).await;
    assert!(said.contains("another sandboxd with this instance key"), "{said}");
    // It uses the original's run directory, as by default.
    let run_dir = daemon.home.path().join("run").to_string_lossy().into_owned();
    let copied = copied.set("SANDBOXD_RUN_DIR", &run_dir);
    let said = refusal(&copied).await;
    assert!(said.contains("another sandboxd with this instance key"), "{said}");
    assert_eq!(daemon.output(&sandbox, "echo on").await, "on\n");
    assert!(daemon.client.ready().await.unwrap().ready, "the original is not affected");
    daemon.stop().await;
}

/// Without disks, nothing on the engine shows that a daemon runs. The newer daemon becomes the owner.
#[tokio::test(flavor = "multi_thread")]
async fn the_older_of_two_daemons_stops_acting() {
    let daemon = Daemon::start_in(plain()).await;
    let copied = copy_of(&daemon.home).set("SANDBOXD_DISK_QUOTA", "off");
    let sandbox = parked(&daemon, "chat:1").await;
    let before = objects_of(&daemon.home).await;
    let newer = DaemonProcess::start(&copied, free_port()).await;
    until("the older daemon has noticed", || async {
        matches!(daemon.client.ready().await, Err(Error::Refused { body, .. }) if body.error.contains("after this one"))
    })
    .await;
    for refused in [
        daemon.client.touch(&sandbox, None).await.map(drop),
        daemon.client.delete(&sandbox).await.map(drop),
        create(&daemon.client, "chat:2").await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::Unavailable));
    }
    assert_eq!(objects_of(&daemon.home).await, before);
    assert_eq!(
        state(&newer.client, &sandbox).await,
        Some(SandboxState::Parked),
        "it is adopted, not removed"
    );
    newer.kill().await;
    // After its next start it is the newest again.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "chat:1\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_older_version_are_accepted_if_the_engine_confirms_them() {
    let daemon = Daemon::start_in(plain()).await;
    let (one, two) = (parked(&daemon, "chat:1").await, parked(&daemon, "chat:2").await);
    let home = daemon.stop().await;
    unmark(&home).await;
    remove_volume(&volume_name(&two)).await;
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&one, "cat file").await, "chat:1\n");
    assert_eq!(state(&daemon.client, &two).await, Some(SandboxState::Lost));

    daemon.client.park(&one, false).await.unwrap();
    let home = daemon.stop().await;
    unmark(&home).await;
    remove_volume(&volume_name(&one)).await;
    let said = refusal(&home).await;
    assert!(said.contains("none of the 2 sandboxes") && said.contains("accept-engine"), "{said}");
    let accept = home.program(&["accept-engine"]).output().await.unwrap();
    assert_eq!(accept.status.code(), Some(1), "no decision is needed");
    let accept = home.program(&["accept-engine", "--yes"]).output().await.unwrap();
    assert!(accept.status.success(), "{accept:?}");
    let daemon = Daemon::start_in(home).await;
    for sandbox in [&one, &two] {
        assert_eq!(state(&daemon.client, sandbox).await, Some(SandboxState::Lost));
        daemon.client.delete(sandbox).await.unwrap();
    }
    assert_eq!(daemon.output(&daemon.sandbox("chat:1").await, "ls").await, "");
    daemon.stop().await;
}

/// Makes engine and database look as an older version left them.
async fn unmark(home: &Home) {
    let instance = home.instance().unwrap();
    let label = format!("sandboxd.instance={}", instance.id());
    let filters = std::collections::HashMap::from([("label".to_owned(), vec![label])]);
    let options = bollard::query_parameters::ListVolumesOptions { filters: Some(filters) };
    let volumes = docker().await.list_volumes(Some(options)).await.unwrap().volumes.unwrap_or_default();
    for volume in volumes {
        if volume.name.contains("sandboxd-marker-") || volume.name.contains("sandboxd-epoch-") {
            remove_volume(&volume.name).await;
        }
    }
    let forget =
        "UPDATE daemon SET instance = NULL, engine = NULL, marker = NULL, epoch = NULL, epoch_number = 0";
    execute(&mut connect(&state_dir(home)).await, forget).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_jump_ends_no_grace_period() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let library = library.replace("x86_64", std::env::consts::ARCH);
    assert!(Path::new(&library).exists(), "install faketime, as `make test` does");
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_ORPHAN_GRACE_MS", "3600000")).await;
    let known = [parked(&daemon, "chat:1").await, parked(&daemon, "chat:2").await];
    let orphan = parked(&daemon, "chat:3").await;
    let home = daemon.stop().await;
    forget(&home, &[&orphan]).await;
    let all = objects_of(&home).await;
    let clock = home.path().join("clock");
    std::fs::write(&clock, "+0").unwrap();
    let home = home
        .set("LD_PRELOAD", &library)
        .set("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy())
        .set("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .set("FAKETIME_NO_CACHE", "1");
    for offset in ["+0", "+400d", "-400d", "+800d"] {
        std::fs::write(&clock, offset).unwrap();
        let process = DaemonProcess::start(&home, free_port()).await;
        assert_eq!(process.client.orphans().await.unwrap().orphans.len(), 2, "{offset}");
        for sandbox in &known {
            assert_eq!(state_of(&process, sandbox).await, Some(SandboxState::Parked), "{offset}");
        }
        assert_eq!(objects_of(&home).await, all, "{offset}");
        process.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_waits_until_the_first_has_stopped() {
    let home = Home::new();
    let mut first = DaemonProcess::start(&home, free_port()).await;
    let sandbox = create(&first.client, "chat:1").await.unwrap();
    let command = crate::support::harness::script("echo kept > file; sleep 300");
    first.client.start(&sandbox, &command).await.unwrap();
    let pid = Pid::from_raw(first.child.id().unwrap().cast_signed()).unwrap();
    // The first daemon is held in the middle of its stop.
    kill_process(pid, Signal::TERM).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let said = refusal(&home).await;
    assert!(said.contains("another sandboxd uses"), "{said}");
    kill_process(pid, Signal::CONT).unwrap();
    assert!(first.child.wait().await.unwrap().success());
    let second = DaemonProcess::start(&home, free_port()).await;
    assert_eq!(state_of(&second, &sandbox).await, Some(SandboxState::Running));
    let file = second.client.read_file(&sandbox, "file").await.unwrap();
    assert_eq!(file.as_deref(), Some(b"kept\n".as_slice()));
    second.kill().await;
}
