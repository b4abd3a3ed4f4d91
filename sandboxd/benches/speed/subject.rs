//! The daemon under measurement: a process of its own, with one sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bollard::Docker;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "a-token-for-benches-of-at-least-32-chars";

/// A daemon with one sandbox.
pub(crate) struct Subject {
    pub(crate) port: u16,
    pub(crate) sandbox: SandboxId,
    pub(crate) container: String,
    pub(crate) daemon_pid: u32,
    pub(crate) agent_pid: u32,
    client: Client,
    child: Child,
    _home: TempDir,
}

impl Subject {
    pub(crate) async fn start() -> Self {
        let home = tempfile::Builder::new().prefix("sbx").tempdir_in("/tmp").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .arg("serve")
            .env("SANDBOXD_STATE_DIR", home.path().join("state"))
            .env("SANDBOXD_RUN_DIR", home.path().join("run"))
            .env("SANDBOXD_PORT", port.to_string())
            .env("SANDBOXD_ADMIN_TOKEN", TOKEN)
            .env("SANDBOXD_AGENT_PATH", agent_program())
            .env("SANDBOXD_AGENT_TRANSPORT", "socket")
            .env("SANDBOXD_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::new(format!("http://127.0.0.1:{port}"), TOKEN).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while client.ready().await.is_err() {
            assert!(Instant::now() < deadline, "the daemon did not get ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let wish = CreateSandbox { session_key: "bench:1".into(), ..CreateSandbox::default() };
        let sandbox = client.create_or_reconnect(&wish).await.unwrap().sandbox_id;
        let container = format!("remcochat-sandbox-{sandbox}");
        let docker = Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap();
        let inspected = docker.inspect_container(&container, None).await.unwrap();
        let agent_pid = inspected.state.unwrap().pid.unwrap() as u32;
        Self { port, sandbox, container, daemon_pid: child.id(), agent_pid, client, child, _home: home }
    }

    pub(crate) fn daemon_kib(&self) -> u64 {
        resident_kib(self.daemon_pid)
    }

    pub(crate) async fn stop(self) {
        self.client.delete(&self.sandbox).await.unwrap();
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // Also where a measurement failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory a process has now, VmRSS of proc_pid_status(5).
pub(crate) fn resident_kib(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// Most memory a process ever had, VmHWM of proc_pid_status(5).
pub(crate) fn peak_kib(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn agent_program() -> PathBuf {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let path = Path::new(env!("CARGO_BIN_EXE_sandboxd")).ancestors().nth(2).unwrap().join(target);
    let path = path.join("agent/sandbox-agent");
    assert!(path.exists(), "no agent at {}: run `make agent` first", path.display());
    path
}
