//! A place for a daemon, of which nothing is left at the end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use bollard::query_parameters::{
    ListContainersOptions, ListNetworksOptions, ListVolumesOptions, RemoveContainerOptions,
    RemoveVolumeOptions,
};
use sandboxd::config::Config;
use sandboxd::model::Instance;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{POLL, SOON, TOKEN, docker, runtime};

/// Where a daemon of this test keeps its things.
pub struct Home {
    dir: TempDir,
    settings: Vec<(String, String)>,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// With settings for a daemon beside others, and nothing in it.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sbx").tempdir_in("/tmp").unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let settings = [
            ("SANDBOXD_STATE_DIR", path("state")),
            ("SANDBOXD_RUN_DIR", path("run")),
            ("SANDBOXD_ADMIN_TOKEN", TOKEN.to_owned()),
            ("SANDBOXD_AGENT_PATH", agent_program().to_string_lossy().into_owned()),
            ("SANDBOXD_AGENT_TRANSPORT", "socket".to_owned()),
            // Any free port, because stories run side by side.
            ("SANDBOXD_PREVIEW_BIND", "127.0.0.1:0".to_owned()),
            ("SANDBOXD_LOG", std::env::var("SANDBOXD_LOG").unwrap_or("warn".into())),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
        let home = Self { dir, settings };
        match runtime() {
            Some(runtime) => home.set("SANDBOXD_RUNTIME", &runtime),
            None => home,
        }
    }

    /// With a setting of the daemon, by its environment variable.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory that everything is in.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn get(&self, name: &str) -> Option<String> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// The settings as the daemon reads them.
    pub fn config(&self) -> Config {
        Config::load(|name| self.get(name), Vec::new()).0.unwrap()
    }

    /// The instance of a daemon that has run here.
    pub fn instance(&self) -> Option<Instance> {
        let key = std::fs::read(Path::new(&self.get("SANDBOXD_STATE_DIR")?).join("instance.key")).ok()?;
        Some(Instance::new(key.try_into().ok()?))
    }

    /// sandboxd's program with this home's settings and no others: the one that `SANDBOXD_TEST_PROGRAM` names, or the
    /// one that cargo built. Only its own tests have it built.
    pub fn program(&self, args: &[&str]) -> Command {
        let program = std::env::var_os("SANDBOXD_TEST_PROGRAM").map(PathBuf::from);
        let mut command = Command::new(program.unwrap_or_else(|| programs().join("sandboxd")));
        command.args(args).env_clear().envs(self.settings.iter().cloned());
        command.env("PATH", std::env::var("PATH").unwrap()).kill_on_drop(true).stdin(Stdio::null());
        command
    }
}

impl Drop for Home {
    /// Removes whatever a daemon of this home left on the engine, also when the test failed.
    fn drop(&mut self) {
        let Some(instance) = self.instance() else { return };
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(remove_all(instance.id()));
        };
        let _ = std::thread::spawn(clean).join();
    }
}

/// Removes whatever the engine has of an instance: containers, networks, volumes.
pub async fn remove_all(instance: &str) {
    let docker = docker().await;
    let filters = HashMap::from([("label".to_owned(), vec![format!("sandboxd.instance={instance}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
    for container in docker.list_containers(Some(options)).await.unwrap_or_default() {
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        let _ = docker.remove_container(&container.id.unwrap_or_default(), Some(options)).await;
    }
    let options = ListNetworksOptions { filters: Some(filters.clone()) };
    for network in docker.list_networks(Some(options)).await.unwrap_or_default() {
        let _ = docker.remove_network(&network.id.unwrap_or_default()).await;
    }
    // The disks' helper removes itself, and until then it has the volume of disks.
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        let options = ListVolumesOptions { filters: Some(filters.clone()) };
        let volumes =
            docker.list_volumes(Some(options)).await.unwrap_or_default().volumes.unwrap_or_default();
        if volumes.is_empty() {
            return;
        }
        for volume in volumes {
            let _ = docker.remove_volume(&volume.name, Some(RemoveVolumeOptions { force: true })).await;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The agent's program, built by `make agent`.
pub fn agent_program() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDBOXD_AGENT_PATH") {
        return path.into();
    }
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = programs().parent().unwrap().join(target).join("agent/sandbox-agent");
    assert!(path.exists(), "no agent at {}: run `make agent` first", path.display());
    path
}

/// Where cargo puts programs: above `deps`, which has the tests.
fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}
