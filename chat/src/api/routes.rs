//! All routes of the server. The router and `web/dev/routes.json`, which the page's mock must match, are made from
//! this list.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, extract::DefaultBodyLimit};
use bash_tools::gates::{Gates, access_route};

use super::{Api, about, answer, chats, files, sandbox};

/// A method of a path, and its handler.
pub(super) struct Route {
    /// Shown in the list of routes.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of the list reads it"))]
    method: &'static str,
    path: &'static str,
    answer: MethodRouter<Api>,
}

/// Routes that require access to the tools.
pub(super) fn private() -> Vec<Route> {
    // A file is streamed and has its own limit.
    let upload = files::put.layer(DefaultBodyLimit::disable());
    vec![
        post("/api/chat", answer::answer),
        post("/api/temporary", chats::begin_temporary),
        get("/api/chats", chats::list),
        get("/api/chats/{id}", chats::read),
        patch("/api/chats/{id}", chats::rename),
        delete("/api/chats/{id}", chats::delete),
        get("/api/chats/{id}/sandbox", sandbox::read),
        delete("/api/chats/{id}/sandbox", sandbox::delete),
        post("/api/chats/{id}/sandbox/park", sandbox::park),
        get("/api/chats/{id}/network", sandbox::network),
        post("/api/chats/{id}/network/allow", sandbox::allow),
        get("/api/chats/{id}/files", files::list),
        delete("/api/chats/{id}/files", files::remove),
        get("/api/chats/{id}/files/content", files::read),
        put("/api/chats/{id}/files/content", upload),
    ]
}

/// Routes for every client.
pub(super) fn open(gates: &Gates) -> Vec<Route> {
    vec![
        get("/api/health", about::health),
        get("/api/app", about::app),
        Route { method: "GET", path: "/api/admin/access", answer: access_route(gates.clone()) },
    ]
}

/// Creates a router of these routes.
pub(super) fn router(routes: Vec<Route>) -> Router<Api> {
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
    fn the_page_s_list_of_routes_is_the_server_s() {
        let gates = Gates::new(None, &Environment::read(None, |_| None)).unwrap();
        let routes = private().into_iter().chain(open(&gates));
        let routes: Vec<String> = routes.map(|route| format!("{} {}", route.method, route.path)).collect();
        let listed: Vec<String> = serde_json::from_str(LISTED).unwrap();
        let wanted = serde_json::to_string_pretty(&routes).unwrap();
        assert_eq!(listed, routes, "chat/web/dev/routes.json must be\n{wanted}");
    }
}
