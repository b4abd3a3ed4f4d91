//! A daemon in the test's process, or in a separate process that can be killed.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::api::Surfaces;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Home, Outcome, TOKEN, outcome, until};

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
}

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
        Self { client, base, shutdown: shutdown.drop_guard(), ended: Ended(Mutex::new(ended)), home, task }
    }

    /// Stops the daemon. Its sandboxes are kept for the next daemon in the same home.
    pub async fn stop(self) -> Home {
        let Self { shutdown, ended, home, task, .. } = self;
        drop(shutdown);
        task.await.unwrap().unwrap();
        drop(ended);
        home
    }

    /// The sandbox of a session.
    pub async fn sandbox(&self, key: &str) -> SandboxId {
        let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
        self.client.create_or_reconnect(&request).await.unwrap().sandbox_id
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
