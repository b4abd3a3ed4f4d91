//! A container that mounted another disk's device, because the daemon was killed while it started.
//!
//! The helper ends with the daemon and releases its devices. A device that is released at that moment may become another
//! disk's before the engine mounts it.

use std::path::{Path, PathBuf};
use std::process::Command;

use bollard::query_parameters::StartContainerOptions;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::model::layout::container_name;

use crate::support::disk_image::Image;
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{DaemonProcess, Home, docker, free_port, outcome, script, until};

/// A loop device of a file.
struct Device(PathBuf);

impl Device {
    fn of(file: &Path) -> Self {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self(String::from_utf8(made.stdout).unwrap().trim().into())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

async fn create(client: &Client, key: &str) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

async fn output(client: &Client, sandbox: &SandboxId, text: &str) -> String {
    outcome(client.run(sandbox, &script(text)).await.unwrap()).await.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_with_another_disk_is_replaced_at_the_next_start() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = DaemonProcess::start(&home, free_port()).await;
    let (ours, other) = (create(&daemon.client, "chat:1").await, create(&daemon.client, "chat:2").await);
    for (sandbox, text) in [(&ours, "ours"), (&other, "other")] {
        output(&daemon.client, sandbox, &format!("echo {text} > file")).await;
    }
    let (image, others) = (Image::of(&ours).await, Image::of(&other).await);
    for sandbox in [&ours, &other] {
        daemon.client.park(sandbox, false).await.unwrap();
    }

    // Killed when the container is about to be started.
    proxy.set(&format!("{}/start", container_name(&ours)), Fault::Hang);
    let waking = tokio::spawn({
        let (client, ours) = (daemon.client.clone(), ours.clone());
        async move { client.touch(&ours, None).await }
    });
    until("the disk is attached", || async { image.link().is_symlink() }).await;
    let is_created =
        || async { docker().await.inspect_container(&container_name(&ours), None).await.is_ok() };
    until("the container is created", is_created).await;
    daemon.kill().await;
    assert!(waking.await.unwrap().is_err());

    // What the engine finds if the device's number has become another disk's.
    let device = Device::of(others.path());
    std::fs::remove_file(image.link()).unwrap();
    std::os::unix::fs::symlink(&device.0, image.link()).unwrap();
    docker().await.start_container(&container_name(&ours), None::<StartContainerOptions>).await.unwrap();

    proxy.clear_faults();
    let daemon = DaemonProcess::start(&home, free_port()).await;
    drop(device);
    for (sandbox, text) in [(&ours, "ours\n"), (&other, "other\n")] {
        assert_eq!(output(&daemon.client, sandbox, "cat file").await, text);
        daemon.client.delete(sandbox).await.unwrap();
    }
    daemon.kill().await;
}
