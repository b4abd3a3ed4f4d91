//! Every route on one page.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use super::error::{method_not_allowed, no_such_route};
use super::{ApiState, auth, command, files, health, hosts, metrics, request_log, sandbox, terminal};

/// The API. A verb stands after a colon in the last segment, which the handler splits off.
pub fn router(state: ApiState) -> Router {
    Router::new()
        .route("/v1/health", get(health::health))
        .route("/v1/ready", get(health::ready))
        .route("/v1/sandboxes", get(sandbox::list).post(sandbox::create))
        .route("/v1/sandboxes/{target}", get(sandbox::get).post(sandbox::act).delete(sandbox::delete))
        .route("/v1/sandboxes/{id}/commands", get(command::list).post(command::start))
        .route("/v1/sandboxes/{id}/commands/{target}", get(command::inspect).post(command::act))
        .route("/v1/sandboxes/{id}/commands/{command}/wait", get(command::wait))
        .route("/v1/sandboxes/{id}/commands/{command}/logs", get(command::logs))
        .route("/v1/sandboxes/{id}/files", get(files::get).put(files::put).delete(files::delete))
        .route("/v1/sandboxes/{id}/files:write", post(files::write))
        .route("/v1/sandboxes/{id}/files:read", get(files::read))
        .route("/v1/sandboxes/{id}/files:stat", get(files::stat))
        .route("/v1/sandboxes/{id}/files:list", get(files::list))
        .route("/v1/sandboxes/{id}/files:mkdir", post(files::mkdir))
        .route("/v1/sandboxes/{id}/files:move", post(files::rename))
        .route("/v1/sandboxes/{id}/files:edit", post(files::edit))
        .route("/v1/sandboxes/{id}/files:archive", get(files::pack).put(files::unpack))
        .route("/v1/sandboxes/{id}/files:watch", get(files::watch))
        .route("/v1/sandboxes/{id}/files:grep", post(files::grep))
        .route("/v1/sandboxes/{id}/files:glob", post(files::glob))
        .route("/v1/sandboxes/{id}/terminals", get(terminal::list).post(terminal::open))
        .route(
            "/v1/sandboxes/{id}/terminals/{target}",
            get(terminal::inspect).post(terminal::act).delete(terminal::close),
        )
        .route("/v1/sandboxes/{id}/terminals/{terminal}/input", post(terminal::input))
        .route("/v1/sandboxes/{id}/terminals/{terminal}/attach", get(terminal::attach))
        .route("/metrics", get(metrics::metrics))
        .fallback(no_such_route)
        .method_not_allowed_fallback(method_not_allowed)
        // The last one added is the first to see a request.
        .layer(from_fn_with_state(state.clone(), hosts::check))
        .layer(from_fn_with_state(state.clone(), auth::check))
        .layer(from_fn_with_state(state.clone(), request_log::log))
        .with_state(state)
}
