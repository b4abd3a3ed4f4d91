//! Processes of this machine: the daemon and agents.

use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::SandboxId;
use tokio::process::Command;

use crate::support::harness::{Home, docker, free_port};

/// Stops a sandbox's agent with SIGSTOP, from the host.
pub(crate) async fn stop_agent(sandbox: &SandboxId) {
    let name = format!("remcochat-sandbox-{sandbox}");
    let container = docker().await.inspect_container(&name, None).await.unwrap();
    let pid = container.state.unwrap().pid.unwrap() as i32;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
}

/// Resident memory of this process, which contains the daemon, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

pub(crate) fn serve(home: &Home) -> Command {
    let mut command = home.program(&["serve"]);
    command.env("SANDBOXD_PORT", free_port().to_string());
    command
}
