//! All routes.

use std::sync::{Arc, LazyLock};

use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};
use bytes::Bytes;
use surface_caller::Shared;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

use super::error::{method_not_allowed, no_such_route};
use super::openapi::Routes;
use super::{
    ApiState, acts, audit, auth, batch, child_token, client_address, command, context, context_tools, docs,
    files, health, history, hosts, mcp as mcp_server, metrics, network, orphan, pace, port, project, race,
    rates, repository, request_log, run, sandbox, server, snapshot, snapshot_changes, snapshot_check,
    snapshot_file, stdin, surface, terminal, ticket, tunnel, value, verb,
};
use crate::model::Instance;

/// The OpenAPI document. Built on first use. It never changes.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(document);

/// Routes of the API. Method and description are at each handler.
fn routes() -> Routes {
    Routes::new()
        .add("/v1/health", routes!(health::health))
        .add("/v1/ready", routes!(health::ready))
        .add("/v1/sandboxes", routes!(sandbox::list, sandbox::create))
        .add("/v1/sandboxes/{id}", routes!(sandbox::get, sandbox::delete))
        .add("/v1/sandboxes/{id}:touch", routes!(sandbox::touch))
        .add("/v1/sandboxes/{id}:park", routes!(sandbox::park))
        .add("/v1/sandboxes/{id}:stop", routes!(sandbox::stop))
        .add("/v1/sandboxes/{id}/commands", routes!(command::list, command::start))
        .add("/v1/sandboxes/{id}/history", routes!(history::list))
        .add("/v1/sandboxes/{id}/contexts", routes!(context::list, context::open))
        .add("/v1/sandboxes/{id}/contexts/{contextId}", routes!(context::inspect, context::close))
        .add("/v1/sandboxes/{id}/contexts/{contextId}:run", routes!(context::run))
        .add("/v1/sandboxes/{id}/contexts/{contextId}/toolCalls/{call}", routes!(context_tools::answer))
        .add("/v1/sandboxes/{id}/contexts/{contextId}:interrupt", routes!(context::interrupt))
        .add("/v1/sandboxes/{id}/contexts/{contextId}:restart", routes!(context::restart))
        .add("/v1/sandboxes/{id}/commands:batch", routes!(batch::run))
        .add("/v1/sandboxes/{id}/commands:run", routes!(run::run))
        .add("/v1/sandboxes/{id}/commands/{commandId}", routes!(command::inspect))
        .add("/v1/sandboxes/{id}/commands/{commandId}:kill", routes!(command::kill))
        .add("/v1/sandboxes/{id}/commands/{commandId}/wait", routes!(command::wait))
        .add("/v1/sandboxes/{id}/commands/{commandId}/logs", routes!(command::logs))
        .add("/v1/sandboxes/{id}/commands/{commandId}/stdin", routes!(stdin::write))
        .add("/v1/sandboxes/{id}/files", routes!(files::content::get, files::content::put, files::delete))
        .add("/v1/sandboxes/{id}/files:write", routes!(files::write))
        .add("/v1/sandboxes/{id}/files:read", routes!(files::read))
        .add("/v1/sandboxes/{id}/files:link", routes!(files::link::create))
        .add("/v1/sandboxes/{id}/files:stat", routes!(files::stat))
        .add("/v1/sandboxes/{id}/files:list", routes!(files::list))
        .add("/v1/sandboxes/{id}/files:mkdir", routes!(files::mkdir))
        .add("/v1/sandboxes/{id}/files:move", routes!(files::rename))
        .add("/v1/sandboxes/{id}/files:edit", routes!(files::edit))
        .add("/v1/sandboxes/{id}/files:archive", routes!(files::archive::pack, files::archive::unpack))
        .add("/v1/sandboxes/{id}/files:watch", routes!(files::watch::watch))
        .add("/v1/sandboxes/{id}/files:grep", routes!(files::search::grep))
        .add("/v1/sandboxes/{id}/files:glob", routes!(files::search::glob))
        .add("/v1/sandboxes/{id}/kv", routes!(value::list))
        .add("/v1/sandboxes/{id}/kv/{key}", routes!(value::get, value::put, value::delete))
        .add("/v1/sandboxes/{id}/terminals", routes!(terminal::list, terminal::open))
        .add("/v1/sandboxes/{id}/terminals/{terminalId}", routes!(terminal::inspect, terminal::close))
        .add("/v1/sandboxes/{id}/terminals/{terminalId}:resize", routes!(terminal::resize))
        .add("/v1/sandboxes/{id}/terminals/{terminalId}/input", routes!(terminal::input))
        .add("/v1/sandboxes/{id}/terminals/{terminalId}/attach", routes!(terminal::attach))
        .add("/v1/sandboxes/{id}/ports", routes!(port::list))
        .add("/v1/sandboxes/{id}/ports/{port}", routes!(port::find))
        .add("/v1/sandboxes/{id}/ports/{port}/tunnel", routes!(tunnel::connect))
        .add("/v1/sandboxes/{id}/ports/{port}/links", routes!(port::links, port::create_link))
        .add("/v1/sandboxes/{id}/ports/{port}/links/{linkId}", routes!(port::link, port::revoke_link))
        .add("/v1/sandboxes/{id}/network", routes!(network::change))
        .add("/v1/sandboxes/{id}/network/denials", routes!(network::denials))
        .add("/v1/sandboxes/{id}/network/denials/{denialId}:allow", routes!(network::allow))
        .add("/v1/sandboxes/{id}/mcp", routes!(mcp_server::list, mcp_server::register))
        .add("/v1/sandboxes/{id}/mcp/{name}", routes!(mcp_server::inspect, mcp_server::remove))
        .add("/v1/sandboxes/{id}/mcp/{name}:approve", routes!(mcp_server::approve))
        .add("/v1/sandboxes/{id}/mcp/{name}:open", routes!(mcp_server::open))
        .add("/v1/sandboxes/{id}/snapshots", routes!(snapshot::list, snapshot::make))
        .add("/v1/sandboxes/{id}:restore", routes!(snapshot::restore))
        .add("/v1/sandboxes/{id}:fork", routes!(snapshot::fork))
        .add("/v1/snapshots", routes!(snapshot::list_all))
        .add("/v1/snapshots/{snapshotId}", routes!(snapshot::get, snapshot::delete))
        .add("/v1/snapshots/{snapshotId}:export", routes!(snapshot_file::export))
        .add("/v1/snapshots:check", routes!(snapshot_check::check))
        .add("/v1/snapshots:import", routes!(snapshot_file::import))
        .add("/v1/snapshots/{snapshotId}/changes", routes!(snapshot_changes::changes))
        .add("/v1/repositories:run", routes!(repository::run, repository::query))
        .add("/v1/whoami", routes!(project::whoami))
        .add("/v1/child-tokens", routes!(child_token::create))
        .add("/v1/tickets", routes!(ticket::create))
        .add("/v1/projects/{project}/subjects:revoke", routes!(project::revoke_subject))
        .add("/v1/projects", routes!(project::list, project::create))
        .add("/v1/projects/{project}", routes!(project::get, project::change))
        .add("/v1/projects/{project}/usage", routes!(project::usage))
        .add("/v1/projects/{project}/tokens", routes!(project::list_tokens, project::create_token))
        .add("/v1/projects/{project}/tokens/{tokenId}", routes!(project::revoke_token))
        .add("/v1/audit", routes!(audit::list))
        .add("/v1/orphans", routes!(orphan::list))
        .add("/v1/orphans/{name}", routes!(orphan::remove))
        .add("/metrics", routes!(metrics::metrics))
        .add("/openapi.json", with_document(routes!(docs::document)))
        .add("/docs", routes!(docs::page))
        .add("/docs/{file}", routes!(docs::asset))
}

/// Passes the OpenAPI document to a route.
fn with_document((schemas, paths, handlers): UtoipaMethodRouter<ApiState>) -> UtoipaMethodRouter<ApiState> {
    (schemas, paths, handlers.route_layer(Extension(docs::Document(&DOCUMENT))))
}

/// Returns the OpenAPI document.
pub(super) fn document() -> Bytes {
    routes().into_document()
}

/// What the servers of surfaces need.
pub struct SurfaceSetup {
    /// What all of them use together.
    pub shared: Shared,
    /// Whether the admin page is served.
    pub admin_page: bool,
    /// Signs what the MCP server issues.
    pub mcp_key: [u8; 32],
    /// Ends open streams.
    pub shutdown: CancellationToken,
}

/// Creates the routes of surfaces.
pub type Surfaces = fn(SurfaceSetup) -> Router;

/// The routes of all surfaces.
pub fn surfaces(setup: SurfaceSetup) -> Router {
    let open_terminal = open_terminal::routes(setup.shared.clone(), setup.shutdown.clone());
    let admin_page = match setup.admin_page {
        true => Router::new().nest_service(auth::ADMIN, admin_page::routes(setup.shared.clone())),
        false => Router::new(),
    };
    admin_page
        .nest_service("/tools", openapi_tools::routes(setup.shared.clone()))
        .nest_service(auth::OPEN_TERMINAL, open_terminal)
        .merge(mcp::http(setup.shared, setup.mcp_key, setup.shutdown))
}

/// Builds the router of the API and of the surfaces on it. Open streams of surfaces end at the shutdown.
pub fn router(
    state: ApiState,
    instance: &Instance,
    shutdown: CancellationToken,
    surfaces: Surfaces,
) -> Router {
    let api = with_layers(routes().into_router(), state.clone());
    let shared = Shared::new(Arc::new(surface::Routes::new(api, state.clone())));
    let setup =
        SurfaceSetup { shared, admin_page: state.admin_page, mcp_key: instance.surface_key("mcp"), shutdown };
    with_layers(routes().into_router().merge(surfaces(setup).with_state(())), state)
}

fn with_layers(router: Router<ApiState>, state: ApiState) -> Router {
    let router = router
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
        // The last layer added sees a request first.
        .layer(from_fn_with_state(state.clone(), race::settle))
        .layer(from_fn_with_state(state.clone(), acts::record))
        .layer(from_fn_with_state(Arc::clone(&state.hosts), hosts::check))
        .layer(from_fn(server::refuse_when_stopping))
        .layer(from_fn_with_state(Arc::clone(&state.pace), pace::check))
        .layer(from_fn_with_state(Arc::clone(&state.rates), rates::check))
        .layer(from_fn_with_state(state.clone(), auth::check))
        .layer(from_fn_with_state(state.clone(), request_log::log))
        .layer(from_fn_with_state(Arc::clone(state.rates.settings()), client_address::note))
        .with_state(state);
    verb::layer(router)
}
