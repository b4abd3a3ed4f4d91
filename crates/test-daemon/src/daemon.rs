//! A daemon in the test's process, or in a separate process that can be killed.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::{SandboxId, SnapshotId};
use sandbox_client::Client;
use sandboxd::api::Surfaces;
use sandboxd::model::layout::volume_name;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Home, Outcome, TOKEN, docker, outcome, until};

/// A daemon in this process.
pub struct Daemon {
    /// A client with its token.
    pub client: Client,
    /// Its URL.
    pub base: String,
    // Dropped in this order: a daemon that still runs must not recreate what the home's drop removes.
    shutdown: DropGuard,
    ended: Ended,
    /// Its directories and settings.
    pub home: Home,
    task: tokio::task::JoinHandle<Result<(), sandboxd::Error>>,
    base_snapshot: OnceCell<SnapshotId>,
}

/// Files of a sandbox that are enough for a base. The workspace stays empty.
const FILL_BASE: &str = "mkdir -p ~/../.local/filler && cd ~/../.local/filler && touch $(seq 1000)";

/// Time in which a dropped daemon may end.
const LAST_ACTS: Duration = Duration::from_secs(3);

/// Its drop waits until the daemon has ended.
struct Ended(Mutex<mpsc::Receiver<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Nothing is ever sent. The wait ends when the sender is dropped.
        let _ = self.0.get_mut().map(|ended| ended.recv_timeout(LAST_ACTS));
    }
}

impl Daemon {
    /// Starts in a new home.
    pub async fn start() -> Self {
        Self::start_in(Home::new()).await
    }

    /// Starts in a home that an earlier daemon may have used. Returns when the daemon is ready.
    pub async fn start_in(home: Home) -> Self {
        Self::start_with(home, sandboxd::api::surfaces).await
    }

    /// Starts with other surfaces than the daemon has.
    pub async fn start_with(home: Home, surfaces: Surfaces) -> Self {
        home.share_start_records();
        let config = home.config();
        sandboxd::telemetry::init(&config.log_filter, false);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let (running, ended) = mpsc::channel();
        let run = sandboxd::run_with(config, listener, shutdown.clone(), surfaces);
        let task = tokio::spawn(async move {
            let _running = running;
            run.await
        });
        let client = Client::new(&base, TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() || task.is_finished() }).await;
        assert!(!task.is_finished(), "the daemon ended: {:?}", task.await);
        let (shutdown, ended) = (shutdown.drop_guard(), Ended(Mutex::new(ended)));
        Self { client, base, shutdown, ended, home, task, base_snapshot: OnceCell::new() }
    }

    /// Stops the daemon. Its sandboxes are kept for the next daemon in the same home.
    pub async fn stop(self) -> Home {
        let Self { shutdown, ended, home, task, .. } = self;
        drop(shutdown);
        task.await.unwrap().unwrap();
        drop(ended);
        home
    }

    /// The sandbox of a session, as [`Daemon::create`] creates it.
    pub async fn sandbox(&self, key: &str) -> SandboxId {
        self.create(&CreateSandbox { session_key: key.into(), ..CreateSandbox::default() }).await
    }

    /// A sandbox with an empty workspace. If `SANDBOXD_TEST_BASE` is set, the workspace is over a base.
    pub async fn create(&self, request: &CreateSandbox) -> SandboxId {
        let workspace = match std::env::var_os("SANDBOXD_TEST_BASE") {
            Some(_) => Some(WorkspaceSource::snapshot(self.base_snapshot().await)),
            None => None,
        };
        self.create_plain(&CreateSandbox { workspace, ..request.clone() }).await
    }

    async fn create_plain(&self, request: &CreateSandbox) -> SandboxId {
        self.client.create_or_reconnect(request).await.unwrap().sandbox_id
    }

    /// A snapshot with an empty workspace that is large enough for a base.
    async fn base_snapshot(&self) -> SnapshotId {
        let make = async || {
            let filled = CreateSandbox { session_key: "base".into(), ..CreateSandbox::default() };
            let filled = self.create_plain(&filled).await;
            self.output(&filled, FILL_BASE).await;
            let made = self.client.make_snapshot(&filled, &MakeSnapshot::default()).await.unwrap();
            self.client.delete(&filled).await.unwrap();
            let snapshot = made.snapshot.snapshot_id;
            self.prove_base(&snapshot).await;
            snapshot
        };
        self.base_snapshot.get_or_init(make).await.clone()
    }

    /// A test over a base must not pass because it had none.
    async fn prove_base(&self, snapshot: &SnapshotId) {
        let workspace = Some(WorkspaceSource::snapshot(snapshot.clone()));
        let proof = CreateSandbox { session_key: "base".into(), workspace, ..CreateSandbox::default() };
        let sandbox = self.create_plain(&proof).await;
        let volume = docker().await.inspect_volume(&volume_name(&sandbox)).await.unwrap();
        assert_ne!(volume.driver, "local", "no base could be made");
        self.client.delete(&sandbox).await.unwrap();
    }

    /// Runs a script to its end, with any result.
    pub async fn run(&self, sandbox: &SandboxId, script: &str) -> Outcome {
        outcome(self.client.run(sandbox, &crate::script(script)).await.unwrap()).await
    }

    /// Runs a script that must succeed, and returns its standard output.
    pub async fn output(&self, sandbox: &SandboxId, script: &str) -> String {
        let outcome = self.run(sandbox, script).await;
        assert_eq!((outcome.exit_code, outcome.reason), (0, EndReason::Exited), "{script}: {outcome:?}");
        String::from_utf8(outcome.stdout).unwrap()
    }
}

/// A daemon in a separate process, which can be killed.
pub struct DaemonProcess {
    /// A client with its token.
    pub client: Client,
    /// Its process.
    pub child: Child,
}

impl DaemonProcess {
    /// Returns when it is ready.
    pub async fn start(home: &Home, port: u16) -> Self {
        home.share_start_records();
        let child = home.program(&["serve"]).env("SANDBOXD_PORT", port.to_string()).spawn().unwrap();
        let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() }).await;
        Self { client, child }
    }

    /// `kill -9`
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
