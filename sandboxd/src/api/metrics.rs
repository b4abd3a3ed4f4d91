//! `GET /metrics`: the daemon's numbers, for whoever has the token.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::{ApiState, sandbox};
use crate::metrics;

/// `GET /metrics`
pub(super) async fn metrics(State(state): State<ApiState>) -> Response {
    let service = &state.service;
    let stages = service.stages();
    let count = |state| stages.iter().filter(|stage| sandbox::state_of(**stage) == state).count();
    let text = service.metrics().to_text(count, service.dropped_history());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
