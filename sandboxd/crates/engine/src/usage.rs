//! Current resource usage of a sandbox's container.

use bollard::models::{ContainerMemoryStats, ContainerStatsResponse};
use bollard::query_parameters::StatsOptions;
use futures::{FutureExt, TryStreamExt};
use sandbox_api::SandboxId;

use super::{Engine, Error};
use sandboxd_model::layout::container_name;
use sandboxd_model::{ContainerUsage, limits};

impl Engine {
    /// Current resource usage of the sandbox's container. `None` if it does not run.
    pub async fn usage(&self, id: &SandboxId) -> Result<Option<ContainerUsage>, Error> {
        let name = container_name(id);
        let options = StatsOptions { stream: false, one_shot: true };
        let mut stats = self.docker.stats(&name, options);
        match self.call("container stats", limits::ENGINE_CALL, stats.try_next().boxed()).await {
            Ok(stats) => Ok(stats.and_then(|stats| usage_of(&stats))),
            Err(Error::Absent { .. } | Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// `None` if the engine has no numbers, which is its response for a container that does not run.
fn usage_of(stats: &ContainerStatsResponse) -> Option<ContainerUsage> {
    let pids = stats.pids_stats.as_ref()?.current?;
    let cpu = stats.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref()?.total_usage);
    Some(ContainerUsage {
        memory_bytes: stats.memory_stats.as_ref().map_or(0, memory_bytes),
        pids,
        cpu_ms: cpu.unwrap_or(0) / 1_000_000,
    })
}

/// Like `docker stats`: without file pages that were not used for a while. Their counter has different names in the
/// two versions of cgroups.
fn memory_bytes(memory: &ContainerMemoryStats) -> u64 {
    let all = memory.usage.unwrap_or(0);
    let stat = |name: &str| memory.stats.as_ref().and_then(|stats| stats.get(name).copied());
    all.saturating_sub(stat("total_inactive_file").or_else(|| stat("inactive_file")).unwrap_or(0))
}
