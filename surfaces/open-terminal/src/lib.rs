//! The API of open-terminal, over sandboxd's sandboxes.
//!
//! Open WebUI connects to a server of this API to give a chat a computer: tools for the model, and a file browser, a
//! terminal and previews for the user. Here, each chat of each user has a sandbox of its own. Every operation is a
//! request of the daemon's HTTP API with the caller's own token.
//!
//! The contract is that of open-terminal 0.14. Errors are `{"detail": …}`.

mod access;
mod address;
mod archive;
mod content;
mod cwd;
mod cwds;
mod discovery;
mod document;
mod edits;
mod escapes;
mod failure;
mod listing;
mod manage;
mod operations;
mod output;
mod params;
mod paths;
mod ports;
mod processes;
mod proxied;
mod proxy;
mod reading;
mod search;
mod server;
mod socket;
mod terminals;
mod unattached;
mod unauthenticated;
mod upload;
mod view;
mod writing;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, delete, get, post};
use http::StatusCode;
use surface_caller::Shared;
use tokio_util::sync::CancellationToken;

use failure::Failure;
use server::Server;

/// Creates the routes. Requests that reach them must be authenticated, and their `Host` and `Origin` checked. Only the
/// WebSocket of a terminal may come without a token.
pub fn routes(shared: Shared, shutdown: CancellationToken) -> Router {
    Router::new()
        .route("/openapi.json", get(discovery::document))
        .route("/health", get(discovery::health))
        .route("/api/config", get(discovery::config))
        .route("/system", get(discovery::system))
        .route("/execute", get(processes::list).post(processes::run))
        .route("/execute/{id}", delete(processes::kill))
        .route("/execute/{id}/status", get(processes::status))
        .route("/execute/{id}/input", post(processes::input))
        .route("/files/cwd", get(cwd::get).post(cwd::set))
        .route("/files/list", get(listing::list))
        .route("/files/read", get(reading::read))
        .route("/files/display", get(view::display))
        .route("/files/view", get(view::view))
        .route("/files/serve/{*path}", get(view::serve))
        .route("/files/write", post(writing::write))
        .route("/files/replace", post(writing::replace))
        .route("/files/grep", get(search::grep))
        .route("/files/glob", get(search::glob))
        .route("/files/mkdir", post(manage::mkdir))
        .route("/files/delete", delete(manage::delete))
        .route("/files/move", post(manage::rename))
        .route("/files/upload", post(upload::upload))
        .route("/files/archive", post(archive::archive))
        .route("/ports", get(ports::list))
        .route("/proxy/{port}", any(proxy::forward))
        .route("/proxy/{port}/", any(proxy::forward))
        .route("/proxy/{port}/{*path}", any(proxy::forward))
        .route("/api/terminals", get(terminals::list).post(terminals::open))
        .route("/api/terminals/{id}", get(socket::attach_or_inspect).delete(terminals::close))
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        // Each handler has its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(Server::new(shared, shutdown))
}

async fn unknown_route() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "no such route: `GET /open-terminal/openapi.json` describes the tools",
    )
}

async fn unknown_method() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "this route does not support the method")
}
