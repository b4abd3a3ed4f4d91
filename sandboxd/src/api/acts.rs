//! Which routes are acts that the audit record has, and the layer that records them.
//!
//! The layer records an act before its handler runs, and its outcome before the response is sent. A request whose act cannot
//! be recorded gets an error instead. Handlers that start commands or run code record that themselves, because the record
//! has a hash of each: [`Access::record_commands`](crate::service::Access::record_commands),
//! [`Access::record_run`](crate::service::Access::record_run).
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
const ACTS: [(Method, &str, Act); 40] = [
    (Method::POST, "/v1/projects", Act::ProjectCreate),
    (Method::PUT, "/v1/projects/{project}", Act::ProjectChange),
    (Method::POST, "/v1/projects/{project}/tokens", Act::TokenCreate),
    (Method::POST, "/v1/child-tokens", Act::TokenDerive),
    (Method::DELETE, "/v1/projects/{project}/tokens/{tokenId}", Act::TokenRevoke),
    (Method::POST, "/v1/projects/{project}/subjects:revoke", Act::SubjectRevoke),
    (Method::POST, "/v1/sandboxes", Act::SandboxCreate),
    (Method::DELETE, "/v1/sandboxes/{id}", Act::SandboxDelete),
    (Method::POST, "/v1/sandboxes/{id}:stop", Act::SandboxDelete),
    (Method::POST, "/v1/sandboxes/{id}:park", Act::SandboxPark),
    (Method::POST, "/v1/sandboxes/{id}:fork", Act::SandboxFork),
    (Method::DELETE, "/v1/orphans/{name}", Act::OrphanDelete),
    (Method::POST, "/v1/sandboxes/{id}/commands", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands:run", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands:batch", Act::CommandStart),
    (Method::POST, "/v1/repositories:run", Act::CommandStart),
    (Method::GET, "/v1/repositories:run", Act::CommandStart),
    (Method::POST, "/v1/sandboxes/{id}/commands/{commandId}:kill", Act::CommandKill),
    (Method::POST, "/v1/sandboxes/{id}/contexts", Act::ContextOpen),
    (Method::POST, "/v1/sandboxes/{id}/contexts/{contextId}:run", Act::ContextRun),
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

/// The act of a route. The router gives `HEAD` to the handlers of `GET`, which then do the same.
fn act_of(method: &Method, route: &str) -> Option<Act> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
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
    if !matches!(act, Act::CommandStart | Act::ContextRun)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Routes that are not recorded, and why.
    const NOT_RECORDED: [(&str, &[&str]); 6] = [
        ("does nothing yet: the connection that the ticket opens is recorded", &["POST /v1/tickets"]),
        (
            "returns a state or the output of a recorded command",
            &[
                "GET /docs",
                "GET /docs/{file}",
                "GET /metrics",
                "GET /openapi.json",
                "GET /v1/audit",
                "GET /v1/health",
                "GET /v1/orphans",
                "GET /v1/projects",
                "GET /v1/projects/{project}",
                "GET /v1/projects/{project}/tokens",
                "GET /v1/projects/{project}/usage",
                "GET /v1/ready",
                "GET /v1/sandboxes",
                "GET /v1/sandboxes/{id}",
                "GET /v1/sandboxes/{id}/commands",
                "GET /v1/sandboxes/{id}/commands/{commandId}",
                "GET /v1/sandboxes/{id}/commands/{commandId}/logs",
                "GET /v1/sandboxes/{id}/commands/{commandId}/wait",
                "GET /v1/sandboxes/{id}/contexts",
                "GET /v1/sandboxes/{id}/contexts/{contextId}",
                "GET /v1/sandboxes/{id}/history",
                "GET /v1/sandboxes/{id}/kv",
                "GET /v1/sandboxes/{id}/kv/{key}",
                "GET /v1/sandboxes/{id}/mcp",
                "GET /v1/sandboxes/{id}/mcp/{name}",
                "GET /v1/sandboxes/{id}/network/denials",
                "GET /v1/sandboxes/{id}/ports",
                "GET /v1/sandboxes/{id}/ports/{port}/links",
                "GET /v1/sandboxes/{id}/ports/{port}/links/{linkId}",
                "GET /v1/sandboxes/{id}/snapshots",
                "GET /v1/sandboxes/{id}/terminals",
                "GET /v1/sandboxes/{id}/terminals/{terminalId}",
                "GET /v1/snapshots",
                "GET /v1/snapshots/{snapshotId}",
                "GET /v1/whoami",
            ],
        ),
        (
            "reads single files, like a chat does for each answer",
            &[
                "GET /v1/sandboxes/{id}/files",
                "GET /v1/sandboxes/{id}/files:list",
                "GET /v1/sandboxes/{id}/files:read",
                "GET /v1/sandboxes/{id}/files:stat",
                "GET /v1/sandboxes/{id}/files:watch",
                "GET /v1/snapshots/{snapshotId}/changes",
                "POST /v1/sandboxes/{id}/files:glob",
                "POST /v1/sandboxes/{id}/files:grep",
            ],
        ),
        (
            "writes files, which every command does without a line of its own, or values",
            &[
                "DELETE /v1/sandboxes/{id}/files",
                "DELETE /v1/sandboxes/{id}/kv/{key}",
                "POST /v1/sandboxes/{id}/files:edit",
                "POST /v1/sandboxes/{id}/files:mkdir",
                "POST /v1/sandboxes/{id}/files:move",
                "POST /v1/sandboxes/{id}/files:write",
                "PUT /v1/sandboxes/{id}/files",
                "PUT /v1/sandboxes/{id}/files:archive",
                "PUT /v1/sandboxes/{id}/kv/{key}",
            ],
        ),
        (
            "is input of a recorded command, run or terminal, and may be secret",
            &[
                "POST /v1/sandboxes/{id}/commands/{commandId}/stdin",
                "POST /v1/sandboxes/{id}/contexts/{contextId}/toolCalls/{call}",
                "POST /v1/sandboxes/{id}/terminals/{terminalId}/input",
            ],
        ),
        (
            "ends or keeps what was recorded at its beginning",
            &[
                "DELETE /v1/sandboxes/{id}/contexts/{contextId}",
                "DELETE /v1/sandboxes/{id}/terminals/{terminalId}",
                "POST /v1/sandboxes/{id}/contexts/{contextId}:interrupt",
                "POST /v1/sandboxes/{id}/contexts/{contextId}:restart",
                "POST /v1/sandboxes/{id}/terminals/{terminalId}:resize",
                "POST /v1/sandboxes/{id}:touch",
            ],
        ),
    ];

    #[test]
    fn every_route_is_recorded_or_known_not_to_be() {
        let document: serde_json::Value = serde_json::from_slice(&crate::api::router::document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let routes = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            let methods =
                methods.filter(|key| matches!(key.as_str(), "get" | "post" | "put" | "patch" | "delete"));
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        let routes: BTreeSet<String> = routes.collect();
        let recorded = ACTS.iter().map(|(method, path, _)| format!("{method} {path}"));
        let others =
            NOT_RECORDED.iter().flat_map(|(_, routes)| routes.iter().map(|route| (*route).to_owned()));
        let known: Vec<String> = recorded.chain(others).collect();
        let unique: BTreeSet<String> = known.iter().cloned().collect();
        assert_eq!(unique.len(), known.len(), "a route is listed twice");
        assert_eq!(unique, routes, "add a new route to the acts, or to those that are not recorded");
    }

    #[test]
    fn every_act_of_a_route_is_found_by_its_method_and_path() {
        assert_eq!(act_of(&Method::DELETE, "/v1/sandboxes/{id}"), Some(Act::SandboxDelete));
        assert_eq!(act_of(&Method::GET, "/v1/sandboxes/{id}"), None);
        let tunnel = "/v1/sandboxes/{id}/ports/{port}/tunnel";
        assert_eq!(act_of(&Method::HEAD, tunnel), Some(Act::PortTunnel));
    }
}
