//! Converts sandboxd's status of a sandbox.

use sandbox_api::sandbox::{Network, Sandbox, SandboxState as ApiState};

use crate::provider::{Limits, NetworkMode, NetworkPolicy, SandboxState, Status, Usage};

const MIB: u64 = 1024 * 1024;

pub(super) fn of(sandbox: Sandbox) -> Status {
    let size = sandbox.resources;
    Status {
        sandbox: sandbox.sandbox_id.as_str().to_owned().into(),
        state: match sandbox.state {
            ApiState::Running => SandboxState::Running,
            ApiState::Parked => SandboxState::Parked,
            ApiState::Creating => SandboxState::Opening,
            ApiState::Failed | ApiState::Deleted => SandboxState::Ending,
            ApiState::Lost => SandboxState::Lost,
        },
        image: Some(sandbox.image),
        limits: Limits {
            memory_bytes: size.memory_mb.map(|mib| mib * MIB),
            vcpus: size.vcpus,
            disk_bytes: size.disk_mb.map(|mib| mib * MIB),
            pids: size.pids,
        },
        usage: sandbox.usage.map(|usage| Usage {
            memory_bytes: usage.memory_bytes,
            disk_bytes: usage.disk_bytes,
            pids: usage.pids,
        }),
        running_commands: Some(sandbox.running_commands),
        last_active_at: Some(sandbox.last_active_at),
        expires_at: sandbox.expires_at,
        network: Some(network(sandbox.network)),
        posture: sandbox.posture,
    }
}

/// Converts sandboxd's network policy.
pub(super) fn network(reported: Network) -> NetworkPolicy {
    let mode = reported.mode.as_deref().and_then(NetworkMode::of_name).unwrap_or_default();
    NetworkPolicy { mode, allow: reported.allow.unwrap_or_default() }
}
