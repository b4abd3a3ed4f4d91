//! A sandbox seen from the host: the files of its cgroup and the limits of its first process.

use std::fs;

use sandbox_api::SandboxId;

use crate::support::harness::docker;

/// A sandbox's container, seen from the host.
pub(crate) struct HostView {
    pid: i64,
}

impl HostView {
    pub(crate) async fn of(sandbox: &SandboxId) -> Self {
        let name = format!("remcochat-sandbox-{sandbox}");
        let container = docker().await.inspect_container(&name, None).await.unwrap();
        Self { pid: container.state.unwrap().pid.unwrap() }
    }

    /// The process id of its first process, the agent.
    pub(crate) fn pid(&self) -> i64 {
        self.pid
    }

    /// A file of its cgroup, by its names in cgroup v1 and v2.
    pub(crate) fn cgroup(&self, controller: &str, first: &str, second: &str) -> String {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).unwrap();
        let path_of = |wanted: &str| {
            groups.lines().find_map(|line| {
                let (names, path) = line.split_once(':')?.1.split_once(':')?;
                names.split(',').any(|name| name == wanted).then(|| path.to_owned())
            })
        };
        let file = match path_of(controller) {
            Some(path) => format!("/sys/fs/cgroup/{controller}{path}/{first}"),
            None => format!("/sys/fs/cgroup{}/{second}", path_of("").unwrap()),
        };
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}")).trim().to_owned()
    }

    /// A number in a file of its cgroup.
    pub(crate) fn number(&self, controller: &str, first: &str, second: &str) -> i64 {
        self.cgroup(controller, first, second).parse().unwrap()
    }

    /// Processes that the OOM killer ended in it.
    pub(crate) fn oom_kills(&self) -> u64 {
        crate::support::limits::value_of(
            &self.cgroup("memory", "memory.oom_control", "memory.events"),
            "oom_kill",
        )
    }

    /// The process ids of its processes, as the host numbers them.
    pub(crate) fn processes(&self) -> Vec<i64> {
        let text = self.cgroup("pids", "cgroup.procs", "cgroup.procs");
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Processors that it may use, in thousandths.
    pub(crate) fn milli_cpus(&self) -> i64 {
        let both = if fs::exists("/sys/fs/cgroup/cpu").unwrap() {
            let quota = self.number("cpu", "cpu.cfs_quota_us", "");
            format!("{quota} {}", self.number("cpu", "cpu.cfs_period_us", ""))
        } else {
            self.cgroup("cpu", "", "cpu.max")
        };
        let (quota, period) = both.split_once(' ').unwrap();
        quota.parse::<i64>().unwrap() * 1000 / period.parse::<i64>().unwrap()
    }

    /// Soft and hard value of a limit of its first process (proc_pid_limits(5)).
    pub(crate) fn limit(&self, name: &str) -> (u64, u64) {
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.pid)).unwrap();
        let values = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let mut values = values.split_whitespace().map(|value| value.parse().unwrap());
        (values.next().unwrap(), values.next().unwrap())
    }
}
