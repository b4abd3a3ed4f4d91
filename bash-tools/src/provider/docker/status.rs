//! How a sandbox is, as sandboxd tells it.

use sandbox_api::sandbox::{Sandbox, SandboxState as Told};

use crate::provider::{Limits, SandboxState, Status, Usage};

const MIB: u64 = 1024 * 1024;

pub(super) fn of(sandbox: Sandbox) -> Status {
    let size = sandbox.resources;
    Status {
        sandbox: sandbox.sandbox_id.as_str().to_owned().into(),
        state: match sandbox.state {
            Told::Running => SandboxState::Running,
            Told::Parked => SandboxState::Parked,
            Told::Creating => SandboxState::Opening,
            Told::Failed | Told::Deleted => SandboxState::Ending,
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
        posture: sandbox.posture,
    }
}
