//! Path parameters. Each type describes them once for all routes below its path.

use sandbox_api::{CommandId, ContextId, DenialId, LinkId, SandboxId, SnapshotId, TerminalId};
use utoipa::IntoParams;

/// `/v1/sandboxes/{id}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InSandbox {
    /// Id of the sandbox.
    id: SandboxId,
}

/// `/v1/projects/{project}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InProject {
    /// Name of the project.
    project: String,
}

/// `/v1/snapshots/{snapshotId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InSnapshot {
    /// Id of the snapshot.
    snapshot_id: SnapshotId,
}

/// `/v1/sandboxes/{id}/commands/{commandId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InCommand {
    /// Id of the sandbox.
    id: SandboxId,
    /// Id of the command.
    command_id: CommandId,
}

/// `/v1/sandboxes/{id}/kv/{key}`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InValue {
    /// Id of the sandbox.
    id: SandboxId,
    /// Key of the value: 1 to 256 bytes of UTF-8 without control characters, and neither `.` nor `..`. A slash in it is
    /// percent-encoded.
    key: String,
}

/// `/v1/sandboxes/{id}/terminals/{terminalId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InTerminal {
    /// Id of the sandbox.
    id: SandboxId,
    /// Id of the terminal.
    terminal_id: TerminalId,
}

/// `/v1/sandboxes/{id}/contexts/{contextId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InContext {
    /// Id of the sandbox.
    id: SandboxId,
    /// Id of the context.
    context_id: ContextId,
}

/// `/v1/sandboxes/{id}/contexts/{contextId}/toolCalls/{call}`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InToolCall {
    /// Id of the sandbox.
    id: SandboxId,
    /// Id of the context.
    context_id: ContextId,
    /// Number of the call, as in its record.
    #[param(minimum = 1)]
    call: u64,
}

/// `/v1/sandboxes/{id}/ports/{port}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InPort {
    /// Id of the sandbox.
    id: SandboxId,
    /// Port in the sandbox.
    #[param(minimum = 1, maximum = 65535)]
    port: u16,
}

/// `/v1/sandboxes/{id}/ports/{port}/links/{linkId}`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InLink {
    /// Id of the sandbox.
    id: SandboxId,
    /// Port in the sandbox.
    #[param(minimum = 1, maximum = 65535)]
    port: u16,
    /// Id of the link.
    link_id: LinkId,
}

/// `/v1/sandboxes/{id}/network/denials/{denialId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InDenial {
    /// Id of the sandbox.
    id: SandboxId,
    /// Id of the denial.
    denial_id: DenialId,
}

/// `/v1/sandboxes/{id}/mcp/{name}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InMcpServer {
    /// Id of the sandbox.
    id: SandboxId,
    /// Name of the wrapped server.
    name: String,
}
