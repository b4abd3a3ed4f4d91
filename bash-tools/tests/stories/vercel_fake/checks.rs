//! Checks of every request.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use super::{PROJECT, Refusal, Shared, TEAM, TOKEN};

pub(super) async fn keep(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match shared.look_at(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl Shared {
    fn look_at(&self, request: &Request) -> Result<(), Refusal> {
        let path = request.uri().path();
        self.received.lock().unwrap().push(format!("{} {path}", request.method()));
        let header =
            |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if header(AUTHORIZATION) != format!("Bearer {TOKEN}") {
            // The fake repeats the received token in errors, to show whether the client forwards it.
            let words = format!("no access with {}", header(AUTHORIZATION));
            return Err(Refusal(StatusCode::FORBIDDEN, "forbidden", words));
        }
        let expected = if path.ends_with("/fs/write") { "application/gzip" } else { "application/json" };
        if header(CONTENT_TYPE) != expected {
            return Err(self.violated(format!("{path}: content-type {:?}", header(CONTENT_TYPE))));
        }
        let Ok(Query(query)) = Query::<HashMap<String, String>>::try_from_uri(request.uri()) else {
            return Err(self.violated(format!("{path}: query")));
        };
        if query.get("teamId").map(String::as_str) != Some(TEAM) {
            return Err(self.violated(format!("{path}: teamId {query:?}")));
        }
        let is_named = path.strip_prefix("/api/v2/sandboxes/").is_some_and(|rest| !rest.contains('/'));
        if is_named && query.get("projectId").map(String::as_str) != Some(PROJECT) {
            return Err(self.violated(format!("{path}: projectId {query:?}")));
        }
        Ok(())
    }

    /// A body that may have only known fields.
    pub(super) fn body<T: DeserializeOwned>(&self, what: &str, body: &[u8]) -> Result<T, Refusal> {
        serde_json::from_slice(body).map_err(|error| self.violated(format!("{what}: {error}")))
    }
}
