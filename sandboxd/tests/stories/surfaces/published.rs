//! Published clients and test suites of MCP, as users have them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use test_daemon::packages::{NpmPackages, python_with, run};

use crate::support::harness::{Daemon, DaemonProcess, Home, TOKEN, free_port};

const NPM: [&str; 5] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/client@2.4.0",
    "@ai-sdk/mcp@2.0.99",
    "ai@7.0.173",
];
const NODE: &str = "24.21.0";
const PYTHON: &str = "mcp==2.3.0";

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(super) async fn npm() -> Option<NpmPackages> {
    let install = || NpmPackages::install(&directory("mcp-npm"), &NPM, Some(NODE));
    let installed = tokio::task::spawn_blocking(install).await.unwrap();
    if installed.is_none() {
        test_daemon::skip(format!("{NPM:?} cannot be installed here"));
    }
    installed
}

/// A server that is a script, which prints its port.
pub(super) struct ScriptServer {
    process: Child,
    pub(super) base: String,
}

impl ScriptServer {
    pub(super) fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        let stdout = process.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut port).unwrap();
        Self { process, base: format!("http://127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A proxy that adds the token, for programs that cannot.
pub(super) fn token_proxy(packages: &NpmPackages, daemon: &Daemon) -> ScriptServer {
    let mut command = packages.script("token-proxy.mjs", include_str!("published/token-proxy.mjs"));
    command.args([&daemon.base, TOKEN]);
    ScriptServer::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn published_clients_for_node_use_the_tools() {
    let Some(packages) = npm().await else { return };
    let daemon = Daemon::start().await;
    let mut clients = packages.script("clients.mjs", include_str!("published/clients.mjs"));
    clients.args([&format!("{}/mcp", daemon.base), TOKEN]);
    let (is_passed, text) = run(clients).await;
    assert!(is_passed && text.contains("as published"), "{text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_calls_a_tool_in_each_era() {
    let Some(packages) = npm().await else { return };
    let daemon = Daemon::start().await;
    for era in ["legacy", "auto", "modern"] {
        let mut inspector = packages.program("mcp-inspector");
        inspector.args(["--cli", &format!("{}/mcp", daemon.base), "--protocol-era", era]);
        inspector.args([
            "--header",
            &format!("Authorization: Bearer {TOKEN}"),
            "X-Sandbox-Session: inspector",
        ]);
        inspector.args([
            "--method",
            "tools/call",
            "--tool-name",
            "bash",
            "--tool-arg",
            "command=echo inspected",
        ]);
        let (is_passed, text) = run(inspector).await;
        assert!(is_passed && text.contains(r#""stdout": "inspected\n""#), "{era}: {text}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_client_for_python_uses_both_transports() {
    let install = || python_with(&directory("mcp-python"), &[PYTHON]);
    let Some(python) = tokio::task::spawn_blocking(install).await.unwrap() else {
        return test_daemon::skip(format!("{PYTHON} cannot be installed here"));
    };
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let script = directory("mcp-python").join("client.py");
    std::fs::write(&script, include_str!("published/client.py")).unwrap();
    let base = format!("http://127.0.0.1:{port}");
    let program = home.program(&["mcp"]).as_std().get_program().to_owned();
    let mut client = Command::new(python);
    client.arg(script).args([&format!("{base}/mcp"), TOKEN]).arg(program).arg(&base);
    let (is_passed, text) = run(client).await;
    assert!(is_passed && text.contains("as published"), "{text}");
    daemon.kill().await;
}
