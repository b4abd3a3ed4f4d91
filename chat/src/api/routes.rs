//! All routes of the server. The router and `web/dev/routes.json`, which the page's mock must match, are made from
//! this list.

use axum::handler::Handler;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{self, MethodFilter, MethodRouter, any, on};
use axum::{Router, extract::DefaultBodyLimit};
use bash_tools::gates::{BashToolsLayer, Gates, access_route};

use super::{
    ACCESS_ROUTE, Api, HEALTH_ROUTE, about, account, answer, body, chats, error, files, guard, identify,
    oidc, page, sandbox, session, terminals, users,
};
use crate::oidc::CALLBACK_PATH;

/// A method of a path, and its handler.
struct Route {
    /// Shown in the list of routes.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of the list reads it"))]
    method: &'static str,
    path: &'static str,
    answer: MethodRouter<Api>,
}

impl Api {
    /// Returns the routes. The server adds the peer's address to each request.
    pub(super) fn router(self) -> Router {
        let private = router(private()).layer(from_fn(identify::check_private));
        Router::new()
            .merge(private)
            .merge(router(open(&self.gates)))
            .route("/api/{*unknown}", any(|| async { error::Error::NotFound { what: "address" } }))
            .method_not_allowed_fallback(|| async { error::Error::Method })
            .fallback(routing::get(page::page))
            .layer(DefaultBodyLimit::max(body::SHORT_BYTES))
            .layer(BashToolsLayer::new(self.gates.clone()))
            .layer(from_fn_with_state(self.clone(), identify::identify))
            .layer(from_fn_with_state(self.clone(), guard::check_all))
            .with_state(self)
    }
}

/// Routes that require a caller. See `identify.rs`.
fn private() -> Vec<Route> {
    // A file is streamed and has its own limit.
    let upload = files::put.layer(DefaultBodyLimit::disable());
    vec![
        post("/api/chat", answer::answer),
        post("/api/temporary", chats::begin_temporary),
        get("/api/changes", chats::changes),
        get("/api/chats", chats::list),
        get("/api/chats/{id}", chats::read),
        patch("/api/chats/{id}", chats::change),
        delete("/api/chats/{id}", chats::delete),
        get("/api/chats/{id}/stream", answer::join),
        post("/api/chats/{id}/stop", answer::stop),
        get("/api/chats/{id}/sandbox", sandbox::read),
        delete("/api/chats/{id}/sandbox", sandbox::delete),
        post("/api/chats/{id}/sandbox/park", sandbox::park),
        get("/api/chats/{id}/network", sandbox::network),
        post("/api/chats/{id}/network/allow", sandbox::allow),
        get("/api/chats/{id}/files", files::list),
        delete("/api/chats/{id}/files", files::remove),
        get("/api/chats/{id}/files/content", files::read),
        put("/api/chats/{id}/files/content", upload),
        get("/api/chats/{id}/terminals", terminals::list),
        post("/api/chats/{id}/terminals", terminals::open),
        delete("/api/chats/{id}/terminals/{terminal}", terminals::close),
        post("/api/chats/{id}/terminals/{terminal}/ticket", terminals::ticket),
        delete("/api/session", session::sign_out),
        put("/api/account/password", account::change_password),
        get("/api/account/sessions", account::sessions),
        delete("/api/account/sessions/{session}", account::end_session),
        get("/api/users", users::list),
        patch("/api/users/{user}", users::change),
        delete("/api/users/{user}/sessions", users::end_sessions),
        get("/api/invitations", users::invitations),
        post("/api/invitations", users::invite),
        delete("/api/invitations/{invitation}", users::withdraw),
    ]
}

/// Routes for every client.
fn open(gates: &Gates) -> Vec<Route> {
    vec![
        get(HEALTH_ROUTE, about::health),
        get("/api/app", about::app),
        get("/api/terminals/{ticket}", terminals::attach),
        post("/api/session", session::sign_in),
        post("/api/invitations/accept", session::accept),
        post("/api/oidc", oidc::begin),
        get(CALLBACK_PATH, oidc::callback),
        Route { method: "GET", path: ACCESS_ROUTE, answer: access_route(gates.clone()) },
    ]
}

/// Creates a router of these routes.
fn router(routes: Vec<Route>) -> Router<Api> {
    routes.into_iter().fold(Router::new(), |router, route| router.route(route.path, route.answer))
}

fn get<T: 'static>(path: &'static str, answer: impl Handler<T, Api>) -> Route {
    Route { method: "GET", path, answer: on(MethodFilter::GET, answer) }
}

fn post<T: 'static>(path: &'static str, answer: impl Handler<T, Api>) -> Route {
    Route { method: "POST", path, answer: on(MethodFilter::POST, answer) }
}

fn put<T: 'static>(path: &'static str, answer: impl Handler<T, Api>) -> Route {
    Route { method: "PUT", path, answer: on(MethodFilter::PUT, answer) }
}

fn patch<T: 'static>(path: &'static str, answer: impl Handler<T, Api>) -> Route {
    Route { method: "PATCH", path, answer: on(MethodFilter::PATCH, answer) }
}

fn delete<T: 'static>(path: &'static str, answer: impl Handler<T, Api>) -> Route {
    Route { method: "DELETE", path, answer: on(MethodFilter::DELETE, answer) }
}

#[cfg(test)]
mod tests {
    use bash_tools::config::Environment;

    use super::*;

    /// The routes that the page's mock may serve.
    const LISTED: &str = include_str!("../../web/dev/routes.json");

    #[test]
    fn the_pages_routes_equal_the_servers() {
        let gates = Gates::new(None, &Environment::read(None, |_| None)).unwrap();
        let routes = private().into_iter().chain(open(&gates));
        let routes: Vec<String> = routes.map(|route| format!("{} {}", route.method, route.path)).collect();
        let listed: Vec<String> = serde_json::from_str(LISTED).unwrap();
        let wanted = serde_json::to_string_pretty(&routes).unwrap();
        assert_eq!(listed, routes, "chat/web/dev/routes.json must be\n{wanted}");
    }
}
