//! A daemon of the benchmark with its directories. Everything is removed at the end, however the benchmark ends.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    ListContainersOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
};
use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_client::Client;
use sandboxd::model::Instance;
use sandboxd::state_dir::StateDir;
use tempfile::TempDir;
use tokio::time::sleep;

pub(crate) const TOKEN: &str = "a-token-for-benches-of-at-least-32-chars";

/// The image of all sandboxes.
pub(crate) const IMAGE: &str = "remcochat-sandbox:node24";

/// Time limit of every wait.
const SOON: Duration = Duration::from_secs(60);

/// Interval of readiness checks: the error of a measured start time.
const POLL: Duration = Duration::from_millis(5);

/// Number of engine objects that are removed in parallel.
const AT_ONCE: usize = 4;

/// Directories and an instance, and the daemon that runs there, if any.
pub(crate) struct Home {
    pub(crate) instance: Arc<Instance>,
    pub(crate) port: u16,
    dir: TempDir,
    daemon: Option<Child>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("sbx").tempdir_in("/tmp").unwrap();
        let instance = StateDir::open(&dir.path().join("state")).unwrap().instance().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { instance: Arc::new(instance), port, dir, daemon: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a daemon and returns its start time.
    pub(crate) async fn start(&mut self) -> Duration {
        self.start_with(&[]).await
    }

    /// Starts a daemon with these settings too.
    pub(crate) async fn start_with(&mut self, settings: &[(&str, &str)]) -> Duration {
        let began = Instant::now();
        let child = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .arg("serve")
            .env("SANDBOXD_STATE_DIR", self.path("state"))
            .env("SANDBOXD_RUN_DIR", self.path("run"))
            .env("SANDBOXD_PORT", self.port.to_string())
            .env("SANDBOXD_PREVIEW_BIND", "127.0.0.1:0")
            .env("SANDBOXD_ADMIN_TOKEN", TOKEN)
            .env("SANDBOXD_AGENT_PATH", agent_program())
            .env("SANDBOXD_AGENT_TRANSPORT", "socket")
            .env("SANDBOXD_IMAGE", IMAGE)
            .env("SANDBOXD_MAX_CONCURRENT", "64")
            // One that waits would be measured instead of what a request does.
            .env("SANDBOXD_POOL_SIZE", "0")
            // For the server of the egress benchmark.
            .env("SANDBOXD_EGRESS_ALLOW_CIDR", "127.0.0.1/32")
            .env("SANDBOXD_LOG", "info")
            .envs(settings.iter().copied())
            // The benchmark handles an interrupt from the keyboard itself.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemon = Some(child.unwrap());
        let client = self.client();
        while client.ready().await.is_err() {
            assert!(began.elapsed() < SOON, "the daemon did not get ready");
            sleep(POLL).await;
        }
        began.elapsed()
    }

    /// Stops the daemon and waits for its end. Its sandboxes are kept.
    #[expect(
        clippy::disallowed_methods,
        reason = "a drop cannot wait otherwise, and nothing else runs meanwhile"
    )]
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.daemon.take() else { return };
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let deadline = Instant::now() + SOON;
        while !matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(format!("http://127.0.0.1:{}", self.port), TOKEN).unwrap()
    }

    pub(crate) fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon was started").id()
    }
}

impl Drop for Home {
    /// Also after a failed or interrupted measurement.
    fn drop(&mut self) {
        self.stop();
        let instance = Arc::clone(&self.instance);
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                remove_many(instance.id()).await;
                test_daemon::remove_all(instance.id()).await;
            });
        };
        let _ = std::thread::spawn(clean).join();
    }
}

pub(crate) async fn docker() -> Docker {
    Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap()
}

/// Removes the containers and volumes of an instance from the engine, of which a benchmark has hundreds.
async fn remove_many(instance: &str) {
    let docker = docker().await;
    let filters = HashMap::from([("label".to_owned(), vec![format!("sandboxd.instance={instance}")])]);
    let deadline = Instant::now() + SOON;
    // Repeated until nothing is left: a disks' helper ends by itself, and uses its volume until then.
    while Instant::now() < deadline {
        let options =
            ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
        let containers = docker.list_containers(Some(options)).await.unwrap_or_default();
        futures::stream::iter(&containers)
            .for_each_concurrent(AT_ONCE, |container| {
                remove_container(&docker, container.id.as_deref().unwrap_or_default())
            })
            .await;
        let options = ListVolumesOptions { filters: Some(filters.clone()) };
        let volumes =
            docker.list_volumes(Some(options)).await.unwrap_or_default().volumes.unwrap_or_default();
        futures::stream::iter(&volumes)
            .for_each_concurrent(AT_ONCE, |volume| async {
                let _ = docker.remove_volume(&volume.name, Some(RemoveVolumeOptions { force: true })).await;
            })
            .await;
        if containers.is_empty() && volumes.is_empty() {
            return;
        }
    }
}

/// Removes a container, running or not.
pub(crate) async fn remove_container(docker: &Docker, name: &str) {
    let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
    let _ = docker.remove_container(name, Some(options)).await;
}

pub(crate) fn agent_program() -> PathBuf {
    let path =
        Path::new(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap().join("agent/sandbox-agent");
    assert!(path.exists(), "no agent at {}: run `make agent` first", path.display());
    path
}
