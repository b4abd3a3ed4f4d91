//! Which routes are acts that the audit record has, and the layer that records them.
//!
//! The layer records an act before its handler runs, and its outcome before the response is sent. A request whose act cannot
//! be recorded gets an error instead. Handlers that start commands record them themselves, because the record has a hash of
//! each: [`Access::record_commands`](crate::service::Access::record_commands).
//!
//! A test knows every route of the API, so a new one must be added here or to those that are not recorded.

use std::sync::Arc;

use axum::RequestExt;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::ApiState;
use super::error::{ApiError, Problem};
use super::request_log::RequestId;
use super::verb;
use crate::model::audit::Act;
use crate::model::echo::cut;
use crate::model::{Principal, limits};

/// The routes whose acts are recorded.
const ACTS: [(Method, &str, Act); 33] = [
    (Method::POST, "/v1/projects", Act::ProjectCreate),
    (Method::POST, "/v1/projects/{project}/tokens", Act::TokenCreate),
    (Method::DELETE, "/v1/projects/{project}/tokens/{tokenId}", Act::TokenRevoke),
    (Method::POST, "/v1/sandboxes", Act::SandboxCreate),
    (Method::DELETE, "/v1/sandboxes/{id}", Act::SandboxDelete),
    (Method::POST, "/v1/sandboxes/{id}:stop", Act::SandboxDelete),
    (Method::POST, "/v1/sandboxes/{id}:park", Act::SandboxPark),
    (Method::POST, "/v1/sandboxes/{id}:fork", Act::SandboxFork),
    (Method::DELETE, "/v1/orphans/{name}", Act::OrphanDelete),
    (Method::POST, "/v1/sandboxes/{id}/commands", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands:run", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands:batch", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands/{commandId}:kill", Act::CommandKill),
    (Method::POST, "/v1/sandboxes/{id}/terminals", Act::TerminalOpen),
    (Method::GET, "/v1/sandboxes/{id}/terminals/{terminalId}/attach", Act::TerminalAttach),
    (Method::PATCH, "/v1/sandboxes/{id}/network", Act::NetworkChange),
    (Method::POST, "/v1/sandboxes/{id}/network/denials/{denialId}:allow", Act::NetworkAllow),
    (Method::GET, "/v1/sandboxes/{id}/ports/{port}", Act::PortOpen),
    (Method::GET, "/v1/sandboxes/{id}/ports/{port}/tunnel", Act::PortTunnel),
    (Method::POST, "/v1/sandboxes/{id}/ports/{port}/links", Act::LinkCreate),
    (Method::DELETE, "/v1/sandboxes/{id}/ports/{port}/links/{linkId}", Act::LinkRevoke),
    (Method::POST, "/v1/sandboxes/{id}/files:link", Act::DownloadCreate),
    (Method::GET, "/v1/sandboxes/{id}/files:archive", Act::ArchiveRead),
    (Method::POST, "/v1/sandboxes/{id}/snapshots", Act::SnapshotCreate),
    (Method::POST, "/v1/sandboxes/{id}:restore", Act::SnapshotRestore),
    (Method::DELETE, "/v1/snapshots/{snapshotId}", Act::SnapshotDelete),
    (Method::GET, "/v1/snapshots/{snapshotId}:export", Act::SnapshotExport),
    (Method::POST, "/v1/snapshots:import", Act::SnapshotImport),
    (Method::POST, "/v1/snapshots:check", Act::SnapshotCheck),
    (Method::POST, "/v1/sandboxes/{id}/mcp", Act::McpRegister),
    (Method::DELETE, "/v1/sandboxes/{id}/mcp/{name}", Act::McpRemove),
    (Method::POST, "/v1/sandboxes/{id}/mcp/{name}:approve", Act::McpApprove),
    (Method::POST, "/v1/sandboxes/{id}/mcp/{name}:open", Act::McpOpen),
];

/// The act of a route.
fn act_of(method: &Method, route: &str) -> Option<Act> {
    ACTS.iter().find(|(known, path, _)| known == method && *path == route).map(|(_, _, act)| *act)
}

/// Records the act of a request.
pub(super) async fn record(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| verb::join(path.as_str()));
    let act = route.and_then(|route| act_of(request.method(), &route));
    let Some((act, principal)) = act.zip(request.extensions().get::<Arc<Principal>>().cloned()) else {
        // Without a principal, the handler refuses the request.
        return next.run(request).await;
    };
    let request_id = request.extensions().get::<RequestId>().cloned();
    let request_id = request_id.as_ref().map_or("-", |id| &id.0);
    let mut recorder = state.service.audit().of_request(act, &principal, request_id);
    if let Ok(params) = request.extract_parts::<RawPathParams>().await {
        for (name, value) in &params {
            let name = if name == "id" { "sandboxId" } else { name };
            recorder = recorder.about(name, cut(value, limits::MAX_ECHO_BYTES));
        }
    }
    if act != Act::CommandStart
        && let Err(error) = recorder.begin().await
    {
        return ApiError::from(error).into_response();
    }
    let recorder = Arc::new(recorder);
    request.extensions_mut().insert(Arc::clone(&recorder));
    let response = next.run(request).await;
    recorder.end(response.extensions().get::<Problem>().map(|problem| problem.code.to_string()));
    response
}
