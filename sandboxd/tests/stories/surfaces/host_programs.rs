//! Hosts that can be installed here, with the configuration that `sandboxd mcp --print-config` prints and a model that follows
//! a script: it opens a sandbox, runs a command in it, and repeats the result.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_daemon::packages::{NpmPackages, run};

use super::published::ScriptServer;
use crate::support::harness::{Daemon, TOKEN};

const CLAUDE_CODE: &str = "@anthropic-ai/claude-code@2.1.197";
const CODEX: &str = "@openai/codex@0.171.0";

/// What the model says at the end. The shell in the sandbox has computed the number.
const WRITTEN: &str = r#""stdout":"model-42\n""#;

async fn installed(name: &str, package: &'static str) -> Option<NpmPackages> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let install = move || NpmPackages::install(&directory, &[package], None);
    let packages = tokio::task::spawn_blocking(install).await.unwrap();
    if packages.is_none() {
        test_daemon::skip(format!("{package} cannot be installed here"));
    }
    packages
}

fn model(packages: &NpmPackages) -> ScriptServer {
    ScriptServer::start(packages.script("model-server.mjs", include_str!("published/model-server.mjs")))
}

async fn printed(daemon: &Daemon, host: &str) -> String {
    let args = ["mcp", "--print-config", host, "--url", &daemon.base];
    let output = daemon.home.program(&args).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A program of a host, in an empty directory, with a home of its own.
fn program(path: PathBuf, home: &Path) -> Command {
    let work = home.join("work");
    std::fs::create_dir(&work).unwrap();
    let mut command = Command::new(path);
    command.current_dir(work).env("HOME", home).env("SANDBOX_TOKEN", TOKEN).stdin(Stdio::null());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_runs_a_command_in_a_sandbox() {
    let Some(packages) = installed("claude-code", CLAUDE_CODE).await else { return };
    let (daemon, model, home) = (Daemon::start().await, model(&packages), tempfile::tempdir().unwrap());
    let config = home.path().join("mcp.json");
    std::fs::write(&config, printed(&daemon, "claude-code").await).unwrap();
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let path = format!("node_modules/@anthropic-ai/claude-code-linux-{machine}/claude");
    let mut claude = program(packages.dir.join(path), home.path());
    claude.args(["-p", "run it", "--strict-mcp-config", "--allowedTools", "mcp__sandbox__*", "--mcp-config"]);
    claude.arg(&config);
    claude.env("ANTHROPIC_BASE_URL", &model.base).env("ANTHROPIC_API_KEY", "scripted");
    claude.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("DISABLE_AUTOUPDATER", "1");
    let (is_done, text) = run(claude).await;
    assert!(is_done && text.contains(WRITTEN), "{text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_runs_a_command_in_a_sandbox() {
    let Some(packages) = installed("codex", CODEX).await else { return };
    let (daemon, model, home) = (Daemon::start().await, model(&packages), tempfile::tempdir().unwrap());
    let provider = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\n\
         base_url = \"{}/v1\"\nwire_api = \"responses\"\n\n",
        model.base
    );
    let settings = home.path().join(".codex");
    std::fs::create_dir(&settings).unwrap();
    let config = format!("{provider}{}", printed(&daemon, "codex").await);
    std::fs::write(settings.join("config.toml"), config).unwrap();
    let mut codex = program(packages.node.clone(), home.path());
    codex.arg(packages.dir.join("node_modules/.bin/codex"));
    // It asks before it calls a tool that can change something, and this test has no user.
    codex.args(["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "run it"]);
    codex.env("CODEX_HOME", &settings);
    let (is_done, text) = run(codex).await;
    assert!(is_done && text.contains(WRITTEN), "{text}");
    daemon.stop().await;
}
