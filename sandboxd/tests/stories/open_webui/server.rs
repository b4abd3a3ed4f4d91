//! The server of Open WebUI, in the environment that `scripts/lib/open_webui.sh` installs.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_daemon::until_within;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::model::{self, MODEL};
use crate::support::browser::Browser;
use crate::support::harness::{Daemon, free_port, skip};

/// The model of the chats: the scripted one, with the tools of the sandbox.
pub(super) const AGENT: &str = "agent";

/// The name of the terminal server.
pub(super) const TERMINAL_SERVER: &str = "Sandboxes";

/// It creates its database and imports its libraries first.
const START: Duration = Duration::from_secs(90);

/// How much of its log a failed story shows.
const LOG_BYTES: usize = 8 * 1024;

/// A server with one user, its administrator. It ends with its story.
pub(super) struct OpenWebUi {
    pub(super) base: String,
    /// The token of its user.
    token: String,
    process: Child,
    model: JoinHandle<()>,
    dir: TempDir,
}

impl OpenWebUi {
    /// Starts it with connections to the daemon. Returns `None` if it is not installed.
    pub(super) async fn start(daemon: &Daemon, tool_token: &str) -> Option<Self> {
        let Some(program) = std::env::var_os("SANDBOXD_TEST_OPEN_WEBUI").map(PathBuf::from) else {
            skip("SANDBOXD_TEST_OPEN_WEBUI does not name the program open-webui");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let (models, model) = model::serve().await;
        let port = free_port();
        let base = format!("http://127.0.0.1:{port}");
        let log = File::create(dir.path().join("log")).unwrap();
        let process = Command::new(program)
            .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()])
            .env("DATA_DIR", dir.path())
            .env("OPENAI_API_BASE_URL", models)
            .env("TOOL_SERVER_CONNECTIONS", printed_connections(daemon, tool_token).await)
            .env("TERMINAL_SERVER_CONNECTIONS", terminal_connections(daemon, tool_token))
            .envs([
                ("ENABLE_FORWARD_USER_INFO_HEADERS", "true"),
                ("ENABLE_OLLAMA_API", "false"),
                ("OPENAI_API_KEY", "none"),
                ("WEBUI_SECRET_KEY", "a secret of this test"),
                // It has no local models, and downloads none.
                ("OFFLINE_MODE", "true"),
                ("HF_HUB_OFFLINE", "1"),
                ("RAG_EMBEDDING_ENGINE", "openai"),
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let http = reqwest::Client::new();
        let health = format!("{base}/health");
        until_within(START, "Open WebUI answers", async || {
            http.get(&health).send().await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        let mut server = Self { base, token: String::new(), process, model, dir };
        server.set_up().await;
        Some(server)
    }

    /// Registers the user and the model.
    async fn set_up(&mut self) {
        let user = json!({ "name": "Ann", "email": "ann@example.org", "password": "the password of Ann" });
        self.token = self.post("/api/v1/auths/signup", user).await["token"].as_str().unwrap().to_owned();
        // A dialog with its news would cover the page.
        self.post("/api/v1/users/user/settings/update", json!({ "ui": { "showChangelog": false } })).await;
        let agent = json!({
            "id": AGENT, "name": "Agent", "base_model_id": MODEL, "params": { "function_calling": "native" },
            "meta": { "toolIds": ["server:mcp:sandbox"] }, "is_active": true,
        });
        self.post("/api/v1/models/create", agent).await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let request = reqwest::Client::new().post(format!("{}{path}", self.base)).json(&body);
        let answer = request.bearer_auth(&self.token).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.json().await.unwrap()
    }

    /// Makes the browser that of the user.
    pub(super) async fn log_in(&self, browser: &Browser) {
        browser.open(&format!("{}/auth", self.base)).await;
        browser.eval::<()>(&format!("localStorage.token = '{}'", self.token)).await;
    }

    pub(super) async fn stop(mut self) {
        self.process.kill().await.unwrap();
        self.model.abort();
    }
}

impl Drop for OpenWebUi {
    #[expect(clippy::print_stderr, reason = "the output of a failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let last = log.floor_char_boundary(log.len().saturating_sub(LOG_BYTES));
            eprintln!("the end of Open WebUI's log:\n{}", &log[last..]);
        }
    }
}

/// What `sandboxd mcp --print-config open-webui` prints, with a token.
async fn printed_connections(daemon: &Daemon, token: &str) -> String {
    let args = ["mcp", "--print-config", "open-webui", "--url", &daemon.base];
    let output = daemon.home.program(&args).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (_, folded) = printed.split_once("TOOL_SERVER_CONNECTIONS: >-").unwrap();
    folded.replace("${SANDBOX_TOKEN}", token)
}

fn terminal_connections(daemon: &Daemon, token: &str) -> String {
    let url = format!("{}/open-terminal", daemon.base);
    json!([{
        "id": "sandboxes", "name": TERMINAL_SERVER, "url": url, "key": token, "auth_type": "bearer",
        "enabled": true, "config": {},
    }])
    .to_string()
}
