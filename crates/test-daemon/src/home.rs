//! Directories and settings of a test daemon. Dropping them removes everything, also from the engine.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use bollard::Docker;
use bollard::query_parameters::{
    DisablePluginOptions, ListContainersOptions, ListNetworksOptions, ListPluginsOptions, ListVolumesOptions,
    RemoveContainerOptions, RemovePluginOptions, RemoveVolumeOptions,
};
use sandboxd::config::Config;
use sandboxd::model::Instance;
use sandboxd::state_dir::StateDir;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{LINK_PORTS, POLL, SOON, TOKEN, docker, runtime};

/// Directories and settings of a test's daemon.
pub struct Home {
    dir: TempDir,
    settings: Vec<(String, String)>,
    tries_first_start: bool,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Default settings for a daemon that runs beside others, in empty directories.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sbx").tempdir_in("/tmp").unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let settings = [
            ("SANDBOXD_STATE_DIR", path("state")),
            ("SANDBOXD_RUN_DIR", path("run")),
            ("SANDBOXD_ADMIN_TOKEN", TOKEN.to_owned()),
            ("SANDBOXD_AGENT_PATH", agent_program().to_string_lossy().into_owned()),
            ("SANDBOXD_AGENT_TRANSPORT", "socket".to_owned()),
            // Any free port, because stories run in parallel.
            ("SANDBOXD_PREVIEW_BIND", "127.0.0.1:0".to_owned()),
            ("SANDBOXD_PREVIEW_PORTS", format!("{}-{}", LINK_PORTS.start(), LINK_PORTS.end())),
            // A test that counts containers, or needs the processors, has no use for one that it did not create.
            ("SANDBOXD_POOL_SIZE", "0".to_owned()),
            ("SANDBOXD_LOG", std::env::var("SANDBOXD_LOG").unwrap_or("warn".into())),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
        let home = Self { dir, settings, tries_first_start: false };
        match runtime() {
            Some(runtime) => home.set("SANDBOXD_RUNTIME", &runtime),
            None => home,
        }
    }

    /// Lets the first start try everything itself. Otherwise it need not try again what the first start of another home has
    /// found to work.
    pub fn with_first_start(mut self) -> Self {
        self.tries_first_start = true;
        self
    }

    /// Before a start: gives the instance its key, and the directory of start records that homes have in common.
    pub(crate) fn share_start_records(&self) {
        if self.tries_first_start {
            return;
        }
        let path = |name: &str| PathBuf::from(self.get(name).unwrap());
        // In use, or without a key that it needs: the start reports that.
        let state_dir = StateDir::open(&path("SANDBOXD_STATE_DIR"));
        let Ok(instance) = state_dir.and_then(|state_dir| state_dir.instance()) else { return };
        let run_dir = path("SANDBOXD_RUN_DIR").join(instance.id());
        let common = programs().join("start-records");
        std::fs::create_dir_all(&common).unwrap();
        std::fs::create_dir_all(&run_dir).unwrap();
        // It may exist, from an earlier start.
        let _ = std::os::unix::fs::symlink(common, run_dir.join("start-records"));
    }

    /// Adds a setting of the daemon, by its environment variable.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory that contains everything.
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

    /// The instance of a daemon that has run in this home.
    pub fn instance(&self) -> Option<Instance> {
        let key = std::fs::read(Path::new(&self.get("SANDBOXD_STATE_DIR")?).join("instance.key")).ok()?;
        Some(Instance::new(key.try_into().ok()?))
    }

    /// The `sandboxd` program with only this home's settings: the one that `SANDBOXD_TEST_PROGRAM` names, or the one
    /// that cargo built. Cargo builds it only for tests of its own package.
    pub fn program(&self, args: &[&str]) -> Command {
        let program = std::env::var_os("SANDBOXD_TEST_PROGRAM").map(PathBuf::from);
        let mut command = Command::new(program.unwrap_or_else(|| programs().join("sandboxd")));
        command.args(args).env_clear().envs(self.settings.iter().cloned());
        command.env("PATH", std::env::var("PATH").unwrap()).kill_on_drop(true).stdin(Stdio::null());
        command
    }
}

impl Drop for Home {
    /// Removes the leftovers of this home's daemons from the engine, also after a failed test.
    fn drop(&mut self) {
        let Some(instance) = self.instance() else { return };
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(remove_all(instance.id()));
        };
        let _ = std::thread::spawn(clean).join();
    }
}

/// Removes all objects of an instance from the engine: containers, networks, volumes, plugins.
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
    // The disks' helper removes itself. Until then it uses the disks' volume.
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        let options = ListVolumesOptions { filters: Some(filters.clone()) };
        let volumes =
            docker.list_volumes(Some(options)).await.unwrap_or_default().volumes.unwrap_or_default();
        if volumes.is_empty() {
            break;
        }
        for volume in volumes {
            let _ = docker.remove_volume(&volume.name, Some(RemoveVolumeOptions { force: true })).await;
        }
        tokio::time::sleep(POLL).await;
    }
    remove_plugins(&docker, instance).await;
}

/// A plugin has no labels. Its name has the instance.
///
/// After a removal the engine waits for the plugin whenever it lists its volumes, up to 30 seconds. So if
/// `SANDBOXD_TEST_PLUGINS` names a file, that file gets the name, and the script that has set the variable removes the plugins.
async fn remove_plugins(docker: &Docker, instance: &str) {
    let prefix = format!("sandboxd-volumes-{instance}:");
    let plugins = docker.list_plugins(None::<ListPluginsOptions>).await.unwrap_or_default();
    let left_to = std::env::var_os("SANDBOXD_TEST_PLUGINS").map(PathBuf::from);
    for plugin in plugins.into_iter().filter(|plugin| plugin.name.starts_with(&prefix)) {
        if let Some(list) = &left_to {
            let mut list = File::options().append(true).create(true).open(list).unwrap();
            list.write_all(format!("{}\n", plugin.name).as_bytes()).unwrap();
            continue;
        }
        let _ = docker.disable_plugin(&plugin.name, Some(DisablePluginOptions { force: Some(true) })).await;
        let _ = docker.remove_plugin(&plugin.name, Some(RemovePluginOptions { force: true })).await;
    }
}

/// The agent's program, built by `make agent`.
pub fn agent_program() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDBOXD_AGENT_PATH") {
        return path.into();
    }
    let path = programs().parent().unwrap().join("agent/sandbox-agent");
    assert!(path.exists(), "no agent at {}: run `make agent` first", path.display());
    path
}

/// The directory in which cargo puts programs: the parent of `deps`, which contains the tests.
fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}
