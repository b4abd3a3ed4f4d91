//! Error responses.

use std::error::Error as StdError;
use std::fmt::Display;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use sandbox_api::ErrorCode;
use sandbox_client::Error as ClientError;
use serde_json::json;
use tracing::warn;

use crate::discovery::json_response;

/// When a request that met a limit may succeed.
const RETRY: Duration = Duration::from_secs(5);

/// Why a request failed. The model and the user read the detail.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    detail: String,
    retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, detail: impl Display) -> Self {
        Self { status, detail: detail.to_string(), retry_after: None }
    }

    /// For a limit that other requests have reached.
    pub(crate) fn busy(detail: impl Display) -> Self {
        Self { retry_after: Some(RETRY), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// For a bug.
    pub(crate) fn internal(detail: impl Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    pub(crate) fn bad_request(detail: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// For an argument with a wrong value.
    pub(crate) fn argument(name: &str, problem: impl Display) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, format_args!("`{name}` {problem}"))
    }

    /// Whether the request itself cannot be carried out: the file is missing, or of another kind.
    pub(crate) fn is_of_file(&self) -> bool {
        matches!(self.status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
    }

    #[cfg(test)]
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let (status, detail) = match &error {
            ClientError::Refused { status, body, .. } => {
                let status = match body.code {
                    // A path or an operation that cannot be carried out.
                    ErrorCode::Refused => StatusCode::BAD_REQUEST,
                    _ => StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY),
                };
                (status, body.error.clone())
            }
            ClientError::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            _ => {
                // The daemon has logged what it refused, but not this.
                warn!(error = &error as &dyn StdError, "a request to the daemon failed");
                (StatusCode::BAD_GATEWAY, error.to_string())
            }
        };
        Self { status, detail, retry_after: error.retry_after() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, &json!({ "detail": self.detail }));
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
        }
        response
    }
}

/// Whether the daemon says that the file does not exist.
pub(crate) fn is_missing_file(error: &ClientError) -> bool {
    is_missing(error, "file")
}

/// Whether the daemon says that there is no such resource.
pub(crate) fn is_missing(error: &ClientError, resource: &str) -> bool {
    error.body().is_some_and(|body| {
        body.code == ErrorCode::NotFound
            && body.details.get("resource").is_some_and(|found| found == resource)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use sandbox_client::TransportError;
    use tracing::subscriber;

    use super::*;

    #[test]
    fn the_cause_of_a_failed_request_is_logged_and_not_shown() {
        let (mut log, writer) = std::io::pipe().unwrap();
        let logger = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(writer)).finish();
        let cause = TransportError::broken("connection reset by peer");
        let failure = subscriber::with_default(logger, || Failure::from(ClientError::Broken(cause)));
        assert_eq!(
            (failure.status, failure.detail()),
            (StatusCode::BAD_GATEWAY, "sandboxd does not respond")
        );
        let mut logged = String::new();
        log.read_to_string(&mut logged).unwrap();
        assert!(logged.contains("WARN") && logged.contains("connection reset by peer"), "{logged}");
    }
}
