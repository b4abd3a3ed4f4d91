//! A machine: a directory and the processes that use it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::process::Command as Process;

use super::Refusal;
use super::command::{Command, Start};

pub(super) const HOME: &str = "/vercel/sandbox";

/// A variable in the environment of all processes of a machine.
const MACHINE: &str = "STORY_MACHINE";

/// Mounts the story's files at the sandbox's path, and then executes the command.
const ENTER: &str = r#"mount --bind "$1" /vercel/sandbox && cd "$2" && shift 2 && exec "$@""#;

/// Creates the directory that files are mounted on. It stays empty.
pub(super) fn prepare() {
    std::fs::create_dir_all(HOME)
        .expect("the stories of Vercel need to be root, to mount files at /vercel/sandbox");
}

pub(super) struct Machine {
    id: String,
    pub(super) sandbox: String,
    pub(super) files: PathBuf,
    pub(super) has_stopped: bool,
    commands: HashMap<String, Arc<Command>>,
}

pub(super) fn send_signal(signal: u8, pid: u32) {
    let kill = std::process::Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .stderr(Stdio::null())
        .status();
    kill.unwrap();
}

impl Machine {
    pub(super) fn new(id: String, sandbox: String, files: PathBuf) -> Self {
        Self { id, sandbox, files, has_stopped: false, commands: HashMap::new() }
    }

    pub(super) fn status(&self) -> &'static str {
        if self.has_stopped { "stopped" } else { "running" }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "id": self.id,
            "memory": 2048,
            "vcpus": 1,
            "region": "iad1",
            "timeout": 300_000,
            "status": self.status(),
            "requestedAt": 1,
            "createdAt": 1,
            "updatedAt": 1,
            "cwd": HOME,
        })
    }

    pub(super) fn command(&self, id: &str) -> Result<Arc<Command>, Refusal> {
        self.commands.get(id).cloned().ok_or_else(|| Refusal::not_found("command"))
    }

    pub(super) fn start(&mut self, request: Start) -> Arc<Command> {
        let id = format!("cmd_{}", self.commands.len() + 1);
        let child = Process::new("unshare")
            .args(["-m", "--", "bash", "-c", ENTER, "enter"])
            .arg(&self.files)
            .arg(request.cwd.as_deref().unwrap_or(HOME))
            .arg(&request.command)
            .args(&request.args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", HOME)
            .env(MACHINE, &self.id)
            .env("STORY_FILES", &self.files)
            .envs(&request.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let command = Command::of(id.clone(), self.id.clone(), request, child);
        self.commands.insert(id, Arc::clone(&command));
        command
    }

    /// Ends all processes that run in it.
    pub(super) fn stop(&mut self) {
        self.has_stopped = true;
        // No other machine, also of other stories, matches: the value contains the directory's name.
        let marks = [format!("{MACHINE}={}", self.id), format!("STORY_FILES={}", self.files.display())];
        for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            let has = |mark: &String| environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
            if let Some(pid) = process.file_name().to_str().and_then(|pid| pid.parse().ok())
                && marks.iter().all(has)
            {
                send_signal(9, pid);
            }
        }
    }
}
