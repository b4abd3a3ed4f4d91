//! An engine for one story, which can be stopped and started.

use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Time limit for its start and its stop.
const SOON: Duration = Duration::from_secs(30);

/// Its data directory.
const DATA: &str = "data";

/// `dockerd` with its own state, namespaces and socket, and without a network.
pub(crate) struct OwnEngine {
    dir: TempDir,
    data: &'static str,
    dockerd: Option<Child>,
}

impl OwnEngine {
    /// Starts one with the image of this name, copied from the machine's engine.
    pub(crate) fn start(image: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("sbxengine").tempdir_in("/tmp").unwrap();
        Self::start_in(dir, image)
    }

    /// Starts one without images.
    pub(crate) fn start_empty() -> Self {
        let dir = tempfile::Builder::new().prefix("sbxengine").tempdir_in("/tmp").unwrap();
        let mut engine = Self { dir, data: DATA, dockerd: None };
        engine.start_again(false);
        engine
    }

    /// Starts one with the image, on its own disk of this size in bytes.
    pub(crate) fn start_on_disk(image: &str, bytes: u64) -> Self {
        let dir = tempfile::Builder::new().prefix("sbxengine").tempdir_in("/tmp").unwrap();
        let (disk, data) = (dir.path().join("disk"), dir.path().join("data"));
        std::fs::File::create_new(&disk).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(&data).unwrap();
        let mut mkfs = Command::new("mke2fs");
        assert!(mkfs.args(["-q", "-F", "-t", "ext4", "-m", "0"]).arg(&disk).status().unwrap().success());
        let mut mount = Command::new("mount");
        assert!(mount.args(["-o", "loop"]).args([&disk, &data]).status().unwrap().success());
        Self::start_in(dir, image)
    }

    fn start_in(dir: TempDir, image: &str) -> Self {
        let mut engine = Self { dir, data: DATA, dockerd: None };
        engine.start_again(false);
        let mut save = Command::new("docker").args(["save", image]).stdout(Stdio::piped()).spawn().unwrap();
        let load = engine.docker(&["load", "--quiet"]).stdin(save.stdout.take().unwrap()).status().unwrap();
        assert!(load.success() && save.wait().unwrap().success(), "the image could not be copied");
        engine
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("docker.sock")
    }

    /// Starts it. With `live_restore`, containers keep running when it stops.
    pub(crate) fn start_again(&mut self, live_restore: bool) {
        let namespace = self.dir.path().file_name().unwrap().to_str().unwrap();
        let path = |name: &str| self.path(name).to_string_lossy().into_owned();
        // In its own network namespace: an engine without a bridge removes docker0 at its start, also one that belongs to another engine.
        let mut dockerd = Command::new("unshare");
        dockerd
            .args(["--net", "dockerd"])
            .args(["--data-root", &path(self.data), "--exec-root", &path("exec"), "--pidfile", &path("pid")])
            .args(["--host", &format!("unix://{}", path("docker.sock")), "--config-file", &path("none.json")])
            .args(["--containerd-namespace", namespace])
            .args(["--containerd-plugins-namespace", &format!("{namespace}-plugins")])
            .args(["--bridge", "none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"])
            .arg(format!("--live-restore={live_restore}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.path("log")).unwrap());
        std::fs::write(self.path("none.json"), "{}").unwrap();
        self.dockerd = Some(dockerd.spawn().expect("dockerd is installed with the engine"));
        wait_until("the engine responds", || {
            self.docker(&["version"]).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        });
    }

    /// Makes the engine use another data root from its next start, as if its disk were not mounted, or its own again.
    pub(crate) fn unmount(&mut self, is_unmounted: bool) {
        self.data = if is_unmounted { "empty" } else { DATA };
    }

    /// Hides what its plugin mounts. Containers see an empty directory instead of this volume, as they do after the engine
    /// has unmounted the directory that it shares with the plugin.
    pub(crate) fn hide_mounts_of_plugin(&self, volume: &str) {
        let plugins = std::fs::read_dir(self.disk().join("plugins")).unwrap();
        let shared = plugins.map(|entry| entry.unwrap().path().join("propagated-mount"));
        let shared = shared.filter(|path| path.exists()).collect::<Vec<_>>();
        let [shared] = &shared[..] else { panic!("not one plugin: {shared:?}") };
        let hide = Command::new("mount").args(["-t", "tmpfs", "--make-private", "none"]).arg(shared).status();
        assert!(hide.unwrap().success());
        std::fs::create_dir(shared.join(volume)).unwrap();
        std::fs::set_permissions(shared.join(volume), Permissions::from_mode(0o700)).unwrap();
    }

    /// Sends SIGTERM, as a service manager does, and waits for its end.
    pub(crate) fn stop(&mut self) {
        let Some(mut dockerd) = self.dockerd.take() else { return };
        let _ = kill_process(Pid::from_child(&dockerd), Signal::TERM);
        wait_until("the engine has stopped", || dockerd.try_wait().unwrap().is_some());
    }

    /// Fills the engine's disk until `free` bytes are left. Dropping the returned value frees the space.
    pub(crate) fn fill(&self, free: u64) -> Ballast {
        let data = self.disk();
        let space = rustix::fs::statvfs(&data).unwrap();
        let taken =
            (space.f_bavail * space.f_frsize).checked_sub(free).expect("less space is free than that");
        let path = data.join("ballast");
        let file = std::fs::File::create_new(&path).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, taken).unwrap();
        Ballast { path }
    }

    /// Names of its volumes that contain the text, one per line.
    pub(crate) fn volumes_with(&self, text: &str) -> String {
        let filter = format!("name={text}");
        let listed = self.docker(&["volume", "ls", "--quiet", "--filter", &filter]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    }

    /// Its data directory, where its own disk is mounted if it has one.
    pub(crate) fn disk(&self) -> PathBuf {
        self.path(DATA)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn docker(&self, args: &[&str]) -> Command {
        let mut docker = Command::new("docker");
        docker.arg("--host").arg(format!("unix://{}", self.socket().display())).args(args);
        docker
    }
}

/// A file that fills the engine's disk.
pub(crate) struct Ballast {
    path: PathBuf,
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for OwnEngine {
    /// Removes all containers, plugins and mounts.
    fn drop(&mut self) {
        if self.data != DATA {
            self.stop();
            self.data = DATA;
        }
        if self.dockerd.is_none() {
            self.start_again(false);
        }
        let listed = self.docker(&["ps", "--all", "--quiet"]).output().unwrap().stdout;
        for id in String::from_utf8_lossy(&listed).lines() {
            let _ = self.docker(&["rm", "--force", "--volumes", id]).stdout(Stdio::null()).status();
        }
        let listed = self.docker(&["plugin", "ls", "--quiet"]).output().unwrap().stdout;
        for id in String::from_utf8_lossy(&listed).lines() {
            let _ = self.docker(&["plugin", "rm", "--force", id]).stdout(Stdio::null()).status();
        }
        self.stop();
        end_shims(self.dir.path());
        unmount_below(self.dir.path());
    }
}

/// Ends the shims that an engine has forgotten, because it was stopped while it started their containers. The directory is in
/// their arguments.
fn end_shims(dir: &Path) {
    let address = dir.join("exec/containerd/containerd.sock");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        let is_shim = arguments.next().is_some_and(|program| program.ends_with(b"containerd-shim-runc-v2"));
        if is_shim && arguments.any(|argument| argument == address.as_os_str().as_bytes()) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// Unmounts everything that a stopped engine leaves mounted, innermost first.
fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut below: Vec<_> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|at| Path::new(at).starts_with(dir))
        .collect();
    below.sort_by_key(|at| std::cmp::Reverse(at.len()));
    for at in below {
        let _ = Command::new("umount").arg("--lazy").arg(at).status();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an engine is started and stopped between the steps of a story"
)]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out after {SOON:?} waiting until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
