//! A daemon for one test: its own state, run dir and instance, and nothing left on the engine at the end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    ListContainersOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
};
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::{EndReason, Record, StartCommand};
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::{Client, Records};
use sandboxd::config::Config;
use sandboxd::model::Instance;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// The token of every daemon here.
pub(crate) const TOKEN: &str = "a-token-for-tests-of-at-least-32-characters";

/// Bound of every wait for a condition.
pub(crate) const SOON: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// Where a daemon of this test keeps its things.
pub(crate) struct Home {
    dir: TempDir,
    settings: Vec<(String, String)>,
}

impl Home {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn get(&self, name: &str) -> Option<String> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn config(&self) -> Config {
        Config::load(|name| self.get(name), Vec::new()).0.unwrap()
    }

    /// The instance of a daemon that has run here.
    pub(crate) fn instance(&self) -> Option<Instance> {
        let key = std::fs::read(Path::new(&self.get("SANDBOXD_STATE_DIR")?).join("instance.key")).ok()?;
        Some(Instance::new(key.try_into().ok()?))
    }

    /// A program of ours with this home's settings and no others.
    pub(crate) fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
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

async fn remove_all(instance: &str) {
    let docker = docker().await;
    let filters = HashMap::from([("label".to_owned(), vec![format!("sandboxd.instance={instance}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
    for container in docker.list_containers(Some(options)).await.unwrap_or_default() {
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        let _ = docker.remove_container(&container.id.unwrap_or_default(), Some(options)).await;
    }
    let options = bollard::query_parameters::ListNetworksOptions { filters: Some(filters.clone()) };
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

/// The engine, for looking behind the daemon's back.
pub(crate) async fn docker() -> Docker {
    Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap()
}

/// The OCI runtime the stories are about, where it is not the engine's default; `make test-gvisor` sets it.
fn runtime() -> Option<String> {
    std::env::var("SANDBOXD_TEST_RUNTIME").ok().filter(|runtime| !runtime.is_empty())
}

/// Whether the sandboxes have a kernel of their own.
pub(crate) fn under_gvisor() -> bool {
    runtime().is_some_and(|runtime| runtime.starts_with("runsc"))
}

/// For the first line of a story that cannot hold under gVisor; says why it is left out.
#[expect(clippy::print_stderr, reason = "a story that is left out is not to look like one that held")]
pub(crate) fn left_out_under_gvisor(reason: &str) -> bool {
    if under_gvisor() {
        eprintln!("left out under gVisor: {reason}");
    }
    under_gvisor()
}

/// The agent's program, built by `make agent`.
fn agent_program() -> PathBuf {
    if let Some(path) = std::env::var_os("SANDBOXD_AGENT_PATH") {
        return path.into();
    }
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let beside_tests = Path::new(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap();
    let path = beside_tests.join(target).join("agent/sandbox-agent");
    assert!(path.exists(), "no agent at {}: run `make agent` first", path.display());
    path
}

/// A daemon in this process.
pub(crate) struct Daemon {
    pub(crate) client: Client,
    pub(crate) base: String,
    pub(crate) home: Home,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), sandboxd::Error>>,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Self::start_in(Home::new()).await
    }

    pub(crate) async fn start_in(home: Home) -> Self {
        let config = home.config();
        sandboxd::telemetry::init(&config.log_filter, false);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(sandboxd::run(config, listener, shutdown.clone()));
        let client = Client::new(&base, TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() || task.is_finished() }).await;
        assert!(!task.is_finished(), "the daemon ended: {:?}", task.await);
        Self { client, base, home, shutdown, task }
    }

    /// Asks the daemon to stop; its sandboxes stay for a daemon in the same home.
    pub(crate) async fn stop(self) -> Home {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
        self.home
    }

    pub(crate) async fn sandbox(&self, key: &str) -> SandboxId {
        let wish = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
        self.client.create_or_reconnect(&wish).await.unwrap().sandbox_id
    }

    pub(crate) async fn run(&self, sandbox: &SandboxId, script: &str) -> Outcome {
        outcome(self.client.run(sandbox, &self::script(script)).await.unwrap()).await
    }

    /// A script that must succeed; what it wrote to standard output.
    pub(crate) async fn output(&self, sandbox: &SandboxId, script: &str) -> String {
        let outcome = self.run(sandbox, script).await;
        assert_eq!((outcome.exit_code, outcome.reason), (0, EndReason::Exited), "{script}: {outcome:?}");
        String::from_utf8(outcome.stdout).unwrap()
    }
}

/// A daemon in a process of its own, to be killed.
pub(crate) struct DaemonProcess {
    pub(crate) client: Client,
    pub(crate) child: Child,
}

impl DaemonProcess {
    pub(crate) async fn start(home: &Home, port: u16) -> Self {
        let child = home.program(&["serve"]).env("SANDBOXD_PORT", port.to_string()).spawn().unwrap();
        let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() }).await;
        Self { client, child }
    }

    /// `kill -9`
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn script(script: &str) -> StartCommand {
    StartCommand { script: Some(script.into()), ..StartCommand::default() }
}

/// Everything a stream told.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    pub(crate) dropped_bytes: u64,
    pub(crate) exit_code: i32,
    pub(crate) reason: EndReason,
    pub(crate) signal: Option<String>,
    pub(crate) duration_ms: u64,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Reads a stream to its end.
pub(crate) async fn outcome(mut records: Records) -> Outcome {
    let mut collected = Collected::default();
    while let Some(record) = records.next().await {
        if let Some(outcome) = collected.take(record.unwrap()) {
            return outcome;
        }
    }
    panic!("the stream has no end record");
}

/// What a stream told so far.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) stdout: Vec<u8>,
    stderr: Vec<u8>,
    pub(crate) seqs: Vec<u64>,
    dropped_bytes: u64,
}

impl Collected {
    pub(crate) fn take(&mut self, record: Record) -> Option<Outcome> {
        match record {
            Record::Stdout(output) => {
                self.seqs.push(output.seq);
                self.stdout.extend(bytes_of(&output));
            }
            Record::Stderr(output) => {
                self.seqs.push(output.seq);
                self.stderr.extend(bytes_of(&output));
            }
            Record::Gap { dropped_bytes, .. } => self.dropped_bytes += dropped_bytes,
            Record::Exit { exit_code, reason, signal, duration_ms, .. } => {
                let Self { stdout, stderr, seqs, dropped_bytes } = std::mem::take(self);
                return Some(Outcome {
                    stdout,
                    stderr,
                    seqs,
                    dropped_bytes,
                    exit_code,
                    reason,
                    signal,
                    duration_ms,
                });
            }
            Record::Start { .. } | Record::Heartbeat => {}
        }
        None
    }
}

fn bytes_of(output: &sandbox_api::command::Output) -> Vec<u8> {
    use base64::Engine as _;
    match &output.data_base64 {
        Some(base64) => base64::prelude::BASE64_STANDARD.decode(base64).unwrap(),
        None => output.data.clone().into_bytes(),
    }
}

/// Waits for a condition, but not for ever.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// Makes each story a test over both ways to reach an agent.
macro_rules! over_each_transport {
    ($($story:ident),* $(,)?) => {
        mod over_the_socket {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                let daemon = $crate::harness::Daemon::start().await;
                super::$story(&daemon).await;
                daemon.stop().await;
            })*
        }
        mod through_the_engine {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() {
                let reason = "the other end of a socket is not told, so the agent cannot know the engine's call";
                if $crate::harness::left_out_under_gvisor(reason) {
                    return;
                }
                let home = $crate::harness::Home::new().set("SANDBOXD_AGENT_TRANSPORT", "engine");
                let daemon = $crate::harness::Daemon::start_in(home).await;
                super::$story(&daemon).await;
                daemon.stop().await;
            })*
        }
    };
}
pub(crate) use over_each_transport;
