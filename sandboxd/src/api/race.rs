//! Requests that race with the removal of their sandbox's container.
//!
//! A delete or a forced park interrupts running requests. After a delete, they report that the sandbox does not
//! exist. After a park, reads are retried, which wakes the sandbox. No other request is repeated.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sandbox_api::SandboxId;

use super::ApiState;
use super::error::{ApiError, Problem};
use crate::model::{Refusal, Resource, limits};

/// Reports a deleted sandbox as missing, and retries reads from a parked one.
pub(super) async fn settle(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let Some(id) = sandbox_of(request.uri().path()) else {
        return next.run(request).await;
    };
    let (parts, body) = request.into_parts();
    let reads = (parts.method == Method::GET).then(|| parts.clone());
    let mut response = next.clone().run(Request::from_parts(parts, body)).await;
    for _ in 0..limits::RACE_TRIES {
        if !is_interrupted(&response) {
            break;
        }
        if state.service.sandboxes().is_deleted(&id) {
            return ApiError::from(Refusal::NotFound(Resource::Sandbox)).into_response();
        }
        let Some(parts) = reads.clone() else { break };
        response = next.clone().run(Request::from_parts(parts, Body::empty())).await;
    }
    response
}

/// Id of the sandbox in a path.
fn sandbox_of(path: &str) -> Option<SandboxId> {
    let rest = path.strip_prefix("/v1/sandboxes/")?;
    rest.split(['/', ':']).next()?.parse().ok()
}

fn is_interrupted(response: &Response) -> bool {
    let problem = response.extensions().get::<Problem>();
    problem.is_some_and(
        |problem| matches!(problem.cause.as_ref(), ApiError::Service(error) if error.is_interrupted()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_of_a_path_is_found_with_and_without_a_verb() {
        let id: SandboxId = "sbx_0123456789abcdef".parse().unwrap();
        for rest in ["", ":touch", "/:touch", "/commands", "/files:read"] {
            assert_eq!(sandbox_of(&format!("/v1/sandboxes/{id}{rest}")), Some(id.clone()), "{rest}");
        }
        for path in ["/v1/sandboxes", "/v1/sandboxes/", "/v1/sandboxes/other/files", "/v1/health"] {
            assert_eq!(sandbox_of(path), None, "{path}");
        }
    }
}
