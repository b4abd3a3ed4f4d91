//! Restarts of the engine, on an engine of the test's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::fixture::{DISK_MIB, Engine, USER, World, skipped, until};

const BASE: &str = "mkdir workspace && echo base >workspace/file";

/// `dockerd` with its own state, namespaces and socket, and without a network.
struct Dockerd {
    dir: TempDir,
    process: Option<Child>,
}

impl Dockerd {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("sbxengine").tempdir_in("/tmp").unwrap();
        let mut dockerd = Self { dir, process: None };
        dockerd.start_again(true);
        dockerd
    }

    fn engine(&self) -> Engine {
        Engine::at(self.dir.path().join("docker.sock"))
    }

    fn start_again(&mut self, live_restore: bool) {
        let namespace = self.dir.path().file_name().unwrap().to_str().unwrap();
        let path = |name: &str| self.dir.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("none.json"), "{}").unwrap();
        // In its own network namespace: an engine without a bridge removes docker0 at its start, also one that belongs
        // to another engine.
        let mut dockerd = Command::new("unshare");
        dockerd
            .args(["--net", "dockerd", "--data-root", &path("data"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("pid"), "--config-file", &path("none.json")])
            .args(["--host", &format!("unix://{}", path("docker.sock"))])
            .args(["--containerd-namespace", namespace])
            .args(["--containerd-plugins-namespace", &format!("{namespace}-plugins")])
            .args(["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"])
            .arg(format!("--live-restore={live_restore}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("log")).unwrap());
        self.process = Some(dockerd.spawn().expect("dockerd is installed with the engine"));
        until("the engine responds", || {
            self.engine().command(&["version"]).output().unwrap().status.success()
        });
    }

    /// Sends SIGTERM, as a service manager does, and waits for its end.
    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let _ = kill_process(Pid::from_child(&process), Signal::TERM);
        until("the engine has stopped", || process.try_wait().unwrap().is_some());
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        self.stop();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let below = |at: &&str| Path::new(at).starts_with(self.dir.path());
        let below: Vec<_> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(below).collect();
        // Innermost first.
        for at in below.iter().rev() {
            let _ = Command::new("umount").args(["--lazy", at]).status();
        }
    }
}

#[test]
fn a_container_survives_restarts_of_the_engine() {
    if skipped() {
        return;
    }
    let mut dockerd = Dockerd::start();
    let world = World::on(dockerd.engine());
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    let container = world.start(&volume, USER);
    disk.release();
    for _ in 0..2 {
        dockerd.stop();
        dockerd.start_again(true);
        until("the plugin answers", || plugin.answers());
        world.exec(&container, "echo restarted >>/v/workspace/file");
    }
    world.exec(&container, "[[ $(cat /v/workspace/file) == $'base\\nrestarted\\nrestarted' ]]");

    world.remove_container(&container);
    until("the disk is not attached", || !disk.is_attached());
    disk.attach();
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == $'base\\nrestarted\\nrestarted' ]]");
    drop(world);
}

#[test]
fn volumes_survive_a_stop_of_the_engine() {
    if skipped() {
        return;
    }
    let mut dockerd = Dockerd::start();
    let world = World::on(dockerd.engine());
    let (plugin, base) = (world.plugin(), world.base(BASE));
    let disk = world.disk(DISK_MIB, USER);
    let volume = world.volume(&plugin, &disk, &base, USER);
    dockerd.stop();
    // Without live-restore, the engine ends its containers.
    dockerd.start_again(false);
    until("the plugin answers", || plugin.answers());
    let container = world.start(&volume, USER);
    world.exec(&container, "echo own >>/v/workspace/file");
    disk.release();
    dockerd.stop();
    until("the disk is not attached", || !disk.is_attached());

    dockerd.start_again(false);
    until("the plugin answers", || plugin.answers());
    disk.attach();
    world.run(&volume, USER, "[[ $(cat /v/workspace/file) == $'base\\nown' ]]");
    world.remove_container(&container);
    world.engine.docker(&["volume", "rm", &volume]);
    drop(world);
}
