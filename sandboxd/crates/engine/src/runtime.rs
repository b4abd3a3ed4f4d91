//! The OCI runtime of the sandboxes, and what it cannot enforce.
//!
//! If the setting is empty, the runtime may still not be runc, because an engine can have another default. A limit
//! that the engine accepts may be one that the runtime was configured to ignore.

use std::collections::HashMap;

use bollard::models::{Runtime as InstalledRuntime, SystemInfo};

use super::Error;

/// Runtimes whose containers' processes are processes of the host. Any other may put a process of its own in front
/// of the agent, and a kernel of its own below it.
const SHARING_THE_KERNEL: [&str; 2] = ["runc", "io.containerd.runc.v2"];

/// Processes and threads that a separate kernel needs on the host. The limit counts them like those of the
/// commands: gVisor has 32 (systrap) or 50 (ptrace) when idle, and more threads while many calls block.
const OWN_PROCESSES: i64 = 128;

/// Host processes for each process of the sandbox: gVisor keeps one for each, and a thread while one of its calls
/// blocks.
const HOST_PROCESSES_EACH: i64 = 2;

/// The runtime argument with which gVisor applies none of the engine's limits.
const IGNORE_CGROUPS: &str = "ignore-cgroups";

/// The OCI runtime of the sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Runtime in a container's settings. `None` means the engine's default.
    pub wanted: Option<String>,
    shares_kernel: bool,
    ignores_limits: bool,
}

impl Runtime {
    /// The runtime `wanted`, or the engine's default, according to the engine's information.
    pub(super) fn of(info: &SystemInfo, wanted: Option<String>) -> Result<Self, Error> {
        let none = HashMap::new();
        let known = info.runtimes.as_ref().unwrap_or(&none);
        if let Some(wanted) = wanted.as_ref().filter(|wanted| !known.contains_key(*wanted)) {
            let mut known: Vec<String> = known.keys().cloned().collect();
            known.sort();
            return Err(Error::UnknownOciRuntime { wanted: wanted.clone(), known });
        }
        let in_force = wanted.as_deref().or(info.default_runtime.as_deref()).unwrap_or("runc");
        Ok(Self {
            shares_kernel: SHARING_THE_KERNEL.contains(&in_force),
            ignores_limits: known.get(in_force).is_some_and(ignores_limits),
            wanted,
        })
    }

    /// Whether the container's processes are processes of the host's kernel, which enforces their limits
    /// individually and reports the peer of a socket.
    pub fn shares_kernel(&self) -> bool {
        self.shares_kernel
    }

    /// The engine's process limit for a sandbox with a limit of `pids` processes.
    pub(super) fn pids_limit(&self, pids: u32) -> i64 {
        if self.shares_kernel { pids.into() } else { OWN_PROCESSES + HOST_PROCESSES_EACH * i64::from(pids) }
    }

    /// What is weaker than under runc, as short phrases.
    pub fn weaknesses(&self) -> Vec<&'static str> {
        let mut weaknesses = Vec::new();
        if self.ignores_limits {
            weaknesses.extend(["memory limit", "processor limit", "process limit"]);
        } else if !self.shares_kernel {
            weaknesses.push("process limit: it ends the whole sandbox");
            weaknesses.push("out-of-memory: it ends the whole sandbox");
        }
        if !self.shares_kernel {
            weaknesses.push("seccomp profile: the runtime's own kernel stands in for it");
            weaknesses.push("agent: known by its secret, not by its process");
            weaknesses.push("agent: a command may end it, and with it the whole sandbox");
            weaknesses.push(
                "open files, locked memory, queues and signals: the runtime's own kernel has its own numbers",
            );
        }
        weaknesses
    }
}

/// gVisor accepts its flags with one or two dashes, and with or without a value.
fn ignores_limits(runtime: &InstalledRuntime) -> bool {
    let flags = runtime.runtime_args.iter().flatten().map(|arg| arg.trim_start_matches('-'));
    flags.filter_map(|flag| flag.strip_prefix(IGNORE_CGROUPS)).any(|value| matches!(value, "" | "=true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(default: &str, gvisor_args: &[&str]) -> SystemInfo {
        let gvisor = InstalledRuntime {
            runtime_args: Some(gvisor_args.iter().map(|arg| (*arg).to_owned()).collect()),
            ..InstalledRuntime::default()
        };
        SystemInfo {
            default_runtime: Some(default.into()),
            runtimes: Some(HashMap::from([
                ("runc".into(), InstalledRuntime::default()),
                ("runsc".into(), gvisor),
            ])),
            ..SystemInfo::default()
        }
    }

    #[test]
    fn the_engines_default_runtime_counts_as_configured() {
        let runc = Runtime::of(&engine("runc", &[]), None).unwrap();
        assert!(runc.shares_kernel() && runc.weaknesses().is_empty());
        assert_eq!(runc.pids_limit(512), 512);
        let runsc = Runtime::of(&engine("runsc", &[]), None).unwrap();
        assert!(!runsc.shares_kernel() && runsc.pids_limit(16) > 64);
        let back = Runtime::of(&engine("runsc", &[]), Some("runc".into())).unwrap();
        assert!(back.shares_kernel());
    }

    #[test]
    fn a_limit_that_the_runtime_ignores_is_a_weakness() {
        for (args, ignored) in [
            (["--network=none", "--ignore-cgroups"], true),
            (["--network=none", "-ignore-cgroups=true"], true),
            (["--network=none", "--ignore-cgroups=false"], false),
            (["--network=none", "--host-uds=open"], false),
        ] {
            let runtime = Runtime::of(&engine("runc", &args), Some("runsc".into())).unwrap();
            assert_eq!(runtime.weaknesses().contains(&"memory limit"), ignored, "{args:?}");
        }
    }
}
