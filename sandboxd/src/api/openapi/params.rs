//! What paths name. Each type says it once for all routes below it.

use sandbox_api::{CommandId, LinkId, SandboxId, TerminalId};
use utoipa::IntoParams;

/// `/v1/sandboxes/{id}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InSandbox {
    /// The sandbox's id.
    id: SandboxId,
}

/// `/v1/sandboxes/{id}/commands/{commandId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InCommand {
    /// The sandbox's id.
    id: SandboxId,
    /// The command's id.
    command_id: CommandId,
}

/// `/v1/sandboxes/{id}/terminals/{terminalId}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InTerminal {
    /// The sandbox's id.
    id: SandboxId,
    /// The terminal's id.
    terminal_id: TerminalId,
}

/// `/v1/sandboxes/{id}/ports/{port}…`
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InPort {
    /// The sandbox's id.
    id: SandboxId,
    /// In the sandbox.
    #[param(minimum = 1, maximum = 65535)]
    port: u16,
}

/// `/v1/sandboxes/{id}/ports/{port}/links/{linkId}`
#[derive(IntoParams)]
#[into_params(parameter_in = Path, rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes")]
pub(in crate::api) struct InLink {
    /// The sandbox's id.
    id: SandboxId,
    /// In the sandbox.
    #[param(minimum = 1, maximum = 65535)]
    port: u16,
    /// The link's id.
    link_id: LinkId,
}
