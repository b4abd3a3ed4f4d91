//! No free loop device for a workspace's disk.

use std::path::PathBuf;

use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures::StreamExt;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Error;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, docker, until};

/// The helper container that lends the devices, and the volume with the images.
fn helper(daemon: &Daemon) -> String {
    format!("sandboxd-disks-{}", daemon.home.instance().unwrap().id())
}

/// Runs a script as root in the disks' helper.
pub(crate) async fn in_helper(daemon: &Daemon, script: &str) {
    let docker = docker().await;
    let config = ExecConfig {
        user: Some("0:0".into()),
        cmd: Some(["bash", "-ec", script].map(Into::into).into()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..ExecConfig::default()
    };
    let exec = docker.create_exec(&helper(daemon), config).await.unwrap().id;
    if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&exec, None).await.unwrap() {
        while output.next().await.is_some() {}
    }
    assert_eq!(docker.inspect_exec(&exec).await.unwrap().exit_code, Some(0), "{script}");
}

/// Names of the disk images, and of everything else in their directory.
async fn images(daemon: &Daemon) -> Vec<PathBuf> {
    let volume = docker().await.inspect_volume(&helper(daemon)).await.unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(volume.mountpoint).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

async fn state(daemon: &Daemon, sandbox: &SandboxId) -> Option<SandboxState> {
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    listed.into_iter().find(|found| found.sandbox_id == *sandbox).map(|found| found.state)
}

#[track_caller]
fn is_reported<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{what}: {error:?}");
    assert!(error.to_string().contains("no free loop device"), "{what}: {error}");
}

async fn create(daemon: &Daemon, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(daemon.client.create_or_reconnect(&request).await?.sandbox_id)
}

/// The kernel creates up to a million loop devices, which no test can use up. Instead, the helper's request for a free
/// device fails: the device node that it opens is a pipe. The helper creates the right node itself once the pipe is
/// removed.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_free_loop_device_sandboxes_are_neither_created_nor_woken_nor_lost() {
    let daemon = Daemon::start().await;
    let (runs, parked) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&parked, "echo kept > file").await;
    daemon.client.park(&parked, false).await.unwrap();
    until("two disks are ready", || async { images(&daemon).await.len() == 4 }).await;
    let (objects, files) = (objects_of(&daemon.home).await, images(&daemon).await);
    in_helper(&daemon, "rm -f /run/loop-control; mkfifo /run/loop-control").await;

    for _ in 0..2 {
        is_reported("create", create(&daemon, "chat:new").await);
        is_reported("wake", daemon.client.touch(&parked, None).await);
        is_reported("reconnect", create(&daemon, "chat:2").await);
    }
    assert_eq!(state(&daemon, &parked).await, Some(SandboxState::Parked));
    assert_eq!(daemon.output(&runs, "echo on").await, "on\n");
    assert_eq!(objects_of(&daemon.home).await, objects);
    let kept = images(&daemon).await;
    assert!(files[..].iter().filter(|file| kept.contains(file)).count() >= 2, "{files:?} {kept:?}");
    let known = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(known.len(), 2, "{known:?}");

    in_helper(&daemon, "rm /run/loop-control").await;
    assert_eq!(daemon.output(&parked, "cat file").await, "kept\n");
    let new = create(&daemon, "chat:new").await.unwrap();
    assert_eq!(daemon.output(&new, "pwd").await, "/vercel/sandbox/workspace\n");
    for sandbox in [runs, parked, new] {
        daemon.client.delete(&sandbox).await.unwrap();
    }
    until("only disks that are ready are left", || async { images(&daemon).await.len() == 2 }).await;
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}
