//! `GET /metrics`: the daemon's metrics. The route requires the token.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::caller::Operator;
use crate::metrics;

/// Metrics.
///
/// The daemon's metrics in the OpenMetrics text format.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "daemon",
    responses((status = 200, description = "Metrics of the daemon.", body = String,
        content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(Operator(access, _): Operator) -> Response {
    let states = access.states();
    let count = |wanted| states.iter().filter(|state| **state == wanted).count();
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], access.fresh_metrics().to_text(count)).into_response()
}
