//! Processes of this machine: the daemon and agents.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::SandboxId;
use tokio::process::Command;

use crate::support::harness::{Home, docker, free_port};

/// Stops a sandbox's agent with SIGSTOP, from the host.
pub(crate) async fn stop_agent(sandbox: &SandboxId) {
    kill_process(agent_pid(sandbox).await, Signal::STOP).unwrap();
}

/// What the descriptors of a sandbox's agent refer to.
pub(crate) async fn agent_descriptors(sandbox: &SandboxId) -> Vec<PathBuf> {
    let pid = agent_pid(sandbox).await.as_raw_nonzero();
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect()
}

/// The process id of a sandbox's agent on the host.
async fn agent_pid(sandbox: &SandboxId) -> Pid {
    let name = format!("remcochat-sandbox-{sandbox}");
    let container = docker().await.inspect_container(&name, None).await.unwrap();
    Pid::from_raw(container.state.unwrap().pid.unwrap() as i32).unwrap()
}

/// Resident memory of this process, which contains the daemon, in KiB.
pub(crate) fn resident_kib() -> u64 {
    memory_kib("self", "VmRSS:")
}

/// The most resident memory that a process has had, in KiB.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    memory_kib(&pid.to_string(), "VmHWM:")
}

fn memory_kib(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

pub(crate) fn serve(home: &Home) -> Command {
    let mut command = home.program(&["serve"]);
    command.env("SANDBOXD_PORT", free_port().to_string());
    command
}
