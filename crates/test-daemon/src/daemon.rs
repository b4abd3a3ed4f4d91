//! A daemon, in the test's own process or in one that can be killed.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use sandbox_api::SandboxId;
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Home, Outcome, TOKEN, outcome, until};

/// A daemon in this process.
pub struct Daemon {
    /// For it, with its token.
    pub client: Client,
    /// Its URL.
    pub base: String,
    // Dropped in this order: what is removed with the home must not be made anew by a daemon that goes on.
    shutdown: DropGuard,
    ended: Ended,
    /// Where it keeps its things.
    pub home: Home,
    task: tokio::task::JoinHandle<Result<(), sandboxd::Error>>,
}

/// How long a daemon that is only dropped may take to end.
const LAST_ACTS: Duration = Duration::from_secs(3);

/// Its drop waits until the daemon has ended.
struct Ended(Mutex<mpsc::Receiver<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Nothing is ever sent: it ends with the drop of the sender.
        let _ = self.0.get_mut().map(|ended| ended.recv_timeout(LAST_ACTS));
    }
}

impl Daemon {
    /// In a home of its own.
    pub async fn start() -> Self {
        Self::start_in(Home::new()).await
    }

    /// In a home where one may have run before. Answers when it is ready.
    pub async fn start_in(home: Home) -> Self {
        let config = home.config();
        sandboxd::telemetry::init(&config.log_filter, false);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let (running, ended) = mpsc::channel();
        let run = sandboxd::run(config, listener, shutdown.clone());
        let task = tokio::spawn(async move {
            let _running = running;
            run.await
        });
        let client = Client::new(&base, TOKEN).unwrap();
        until("the daemon is ready", || async { client.ready().await.is_ok() || task.is_finished() }).await;
        assert!(!task.is_finished(), "the daemon ended: {:?}", task.await);
        Self { client, base, shutdown: shutdown.drop_guard(), ended: Ended(Mutex::new(ended)), home, task }
    }

    /// Asks the daemon to stop; its sandboxes stay for a daemon in the same home.
    pub async fn stop(self) -> Home {
        let Self { shutdown, ended, home, task, .. } = self;
        drop(shutdown);
        task.await.unwrap().unwrap();
        drop(ended);
        home
    }

    /// The sandbox of a session.
    pub async fn sandbox(&self, key: &str) -> SandboxId {
        let wish = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
        self.client.create_or_reconnect(&wish).await.unwrap().sandbox_id
    }

    /// Runs a script to its end, whatever that is.
    pub async fn run(&self, sandbox: &SandboxId, script: &str) -> Outcome {
        outcome(self.client.run(sandbox, &crate::script(script)).await.unwrap()).await
    }

    /// A script that must succeed; what it wrote to standard output.
    pub async fn output(&self, sandbox: &SandboxId, script: &str) -> String {
        let outcome = self.run(sandbox, script).await;
        assert_eq!((outcome.exit_code, outcome.reason), (0, EndReason::Exited), "{script}: {outcome:?}");
        String::from_utf8(outcome.stdout).unwrap()
    }
}

/// A daemon in a process of its own, to be killed.
pub struct DaemonProcess {
    /// For it, with its token.
    pub client: Client,
    /// Its process.
    pub child: Child,
}

impl DaemonProcess {
    /// Answers when it is ready.
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
