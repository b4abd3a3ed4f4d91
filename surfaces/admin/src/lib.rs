//! The page on which people manage a daemon.
//!
//! It is a client of the daemon's HTTP API: every page is made on the server from responses of the API, which get the token
//! of the session. The browser has only the session's cookie, which no route of the API accepts. No page contains a token,
//! except a new one, once. No page contains a script.

mod document;
mod done;
mod failure;
mod fields;
mod form;
mod headers;
mod layout;
mod limits;
mod origin;
mod pages;
mod plot;
mod query;
mod server;
mod session;
mod text;
mod units;
mod visitor;

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, routing};
use surface_caller::Shared;

use failure::Failure;
use server::Server;

/// A page or form, and its handler.
struct Route {
    method: &'static str,
    path: &'static str,
    answer: MethodRouter<Server>,
}

/// All pages and forms. Paths are those below the address at which the daemon mounts them.
fn table() -> Vec<Route> {
    use pages::{
        audit, denials, overview, project, projects, quotas, sandbox, sandboxes, sign_in, subject, token,
    };
    vec![
        get("/", overview::show),
        get("/style.css", document::style),
        get("/icon.svg", document::icon),
        get("/sign-in", sign_in::show),
        post("/sign-in", sign_in::sign_in),
        post("/sign-out", sign_in::sign_out),
        get("/projects", projects::show),
        post("/projects", projects::create),
        get("/projects/{project}", project::show),
        get("/projects/{project}/quotas", quotas::show),
        post("/projects/{project}/quotas", quotas::save),
        post("/projects/{project}/tokens", token::create),
        get("/projects/{project}/tokens/{token}/revoke", token::confirm),
        post("/projects/{project}/tokens/{token}/revoke", token::revoke),
        post("/projects/{project}/subjects/revoke", subject::revoke),
        get("/sandboxes", sandboxes::show),
        get("/sandboxes/{sandbox}", sandbox::show),
        post("/sandboxes/{sandbox}/park", sandbox::park),
        post("/sandboxes/{sandbox}/wake", sandbox::wake),
        get("/sandboxes/{sandbox}/delete", sandbox::confirm),
        post("/sandboxes/{sandbox}/delete", sandbox::delete),
        get("/denials", denials::show),
        get("/audit", audit::show),
    ]
}

/// Creates the routes. The daemon must check `Host` and `Origin` of the requests that reach them. The routes themselves check
/// who sends a request.
pub fn routes(shared: Shared) -> Router {
    let server = Server { callers: shared.callers, sessions: Default::default() };
    let routes =
        table().into_iter().fold(Router::new(), |router, route| router.route(route.path, route.answer));
    routes
        .fallback(|| async { Failure::NoPage })
        .method_not_allowed_fallback(|| async { Failure::Method })
        // Forms have a limit of their own.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn(headers::add))
        .with_state(server)
}

/// Method and path of all routes, as `GET /projects/{project}`.
pub fn route_names() -> Vec<String> {
    table().iter().map(|route| format!("{} {}", route.method, route.path)).collect()
}

fn get<H: Handler<T, Server>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "GET", path, answer: routing::get(handler) }
}

fn post<H: Handler<T, Server>, T: 'static>(path: &'static str, handler: H) -> Route {
    Route { method: "POST", path, answer: on(MethodFilter::POST, handler) }
}
