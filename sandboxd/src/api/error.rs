//! Converts errors to responses. The message is the error's own. Its cause goes to the log.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandbox_api::{ErrorBody, ErrorCode};
use serde_json::{Map, Value};

use crate::model::echo::{Echo, cut};
use crate::model::{FieldError, Refusal, limits};
use crate::service;

/// Result of a handler.
pub(super) type Result<T> = std::result::Result<T, ApiError>;

/// Why a request is rejected.
#[derive(Debug)]
pub(super) enum ApiError {
    /// An error of the service.
    Service(service::Error),
    /// An error of the HTTP layer.
    Http(HttpError),
}

/// Errors of the HTTP layer itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("a valid admin token is required")]
    Unauthenticated,
    #[error("too many requests with a wrong token; try again in {retry_after} s")]
    TooManyFailures { retry_after: u64 },
    #[error("the host {} is not a known name of this daemon; see SANDBOXD_ALLOWED_HOSTS", Echo(.0))]
    Host(String),
    #[error("the request is ambiguous: {0}")]
    Shape(&'static str),
    #[error("requests from the origin {} are not allowed", Echo(.0))]
    Origin(String),
    #[error("no such route")]
    NoRoute,
    #[error("this route does not support the method")]
    Method,
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the body must be JSON (content-type: application/json)")]
    NotJson,
    #[error("the body could not be read to the end")]
    BodyCut(#[source] axum::Error),
    #[error("the body did not arrive within {:?}", limits::REQUEST_BODY)]
    BodyLate,
    #[error("this route is a WebSocket; request an upgrade (RFC 6455)")]
    NoUpgrade(#[source] axum::extract::ws::rejection::WebSocketUpgradeRejection),
    #[error("no part of the body arrived for {:?}", limits::UPLOAD_PAUSE)]
    UploadPaused,
    #[error(
        "no memory was free for the body within {:?}, because of other large bodies",
        limits::REQUEST_BODY
    )]
    NoMemoryForBody,
    #[error("the daemon is shutting down and accepts no new requests; retry after its restart")]
    Stopping,
}

impl HttpError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::TooManyFailures { .. } => ErrorCode::RateLimited,
            Self::Host(_) | Self::Origin(_) => ErrorCode::Forbidden,
            Self::NoRoute => ErrorCode::NotFound,
            Self::Method => ErrorCode::MethodNotAllowed,
            Self::BodyTooLarge { .. } => ErrorCode::TooLarge,
            Self::NotJson => ErrorCode::UnsupportedMediaType,
            Self::BodyCut(_) | Self::Shape(_) => ErrorCode::InvalidRequest,
            Self::NoUpgrade(_) => ErrorCode::InvalidRequest,
            Self::BodyLate | Self::UploadPaused => ErrorCode::DeadlineExceeded,
            Self::NoMemoryForBody => ErrorCode::CapacityExhausted,
            Self::Stopping => ErrorCode::Unavailable,
        }
    }

    fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::TooManyFailures { retry_after } => Some(*retry_after),
            Self::NoMemoryForBody | Self::Stopping => Some(limits::RETRY_AFTER_SECONDS),
            _ => None,
        }
    }

    fn details(&self) -> Map<String, Value> {
        let fact = match self {
            Self::NoRoute => Some(("resource", "route".into())),
            Self::BodyTooLarge { limit } => Some(("limit", (*limit).into())),
            Self::NoUpgrade(_) => Some(("field", "upgrade".into())),
            Self::BodyCut(_) | Self::BodyLate | Self::UploadPaused | Self::NoMemoryForBody => {
                Some(("field", "body".into()))
            }
            Self::Unauthenticated
            | Self::TooManyFailures { .. }
            | Self::Host(_)
            | Self::Shape(_)
            | Self::Origin(_)
            | Self::Method
            | Self::NotJson
            | Self::Stopping => None,
        };
        fact.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
        }
    }
}

impl StdError for ApiError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Service(error) => error.source(),
            Self::Http(error) => error.source(),
        }
    }
}

impl From<service::Error> for ApiError {
    fn from(error: service::Error) -> Self {
        Self::Service(error)
    }
}

impl From<service::UploadFailed<HttpError>> for ApiError {
    fn from(error: service::UploadFailed<HttpError>) -> Self {
        match error {
            service::UploadFailed::Service(error) => Self::Service(error),
            service::UploadFailed::Source(error) => Self::Http(error),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Service(refusal.into())
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::Service(error.into())
    }
}

impl From<HttpError> for ApiError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

/// An error response that has no request id yet. It travels in the response's extensions.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) code: ErrorCode,
    pub(super) cause: Arc<ApiError>,
    details: Map<String, Value>,
}

impl Problem {
    /// Writes the body of the response.
    pub(super) fn write_out(self, mut response: Response, request_id: &str) -> Response {
        let body = ErrorBody {
            error: sentence(self.code, self.cause.as_ref()),
            code: self.code,
            details: self.details,
            request_id: request_id.to_owned(),
        };
        let json = serde_json::to_vec(&body).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, super::JSON);
        *response.body_mut() = Body::from(json);
        response
    }
}

/// Returns the message for the client.
pub(super) fn sentence(code: ErrorCode, error: &impl fmt::Display) -> String {
    match code {
        // The message of an internal error belongs in the log.
        ErrorCode::Internal => "sandboxd failed; its log has the reason under this request id".to_owned(),
        _ => cut(&error.to_string(), limits::MAX_ERROR_BYTES).into_owned(),
    }
}

/// Truncates text that repeats the client's input.
fn bound(fact: &mut Value) {
    if let Value::String(text) = fact
        && text.len() > limits::MAX_PROBLEM_BYTES
    {
        *text = cut(text, limits::MAX_PROBLEM_BYTES).into_owned();
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, mut details, retry_after) = match &self {
            Self::Service(error) => (error.code(), error.details(), error.retry_after_seconds()),
            Self::Http(error) => (error.code(), error.details(), error.retry_after_seconds()),
        };
        details.values_mut().for_each(bound);
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Service(service::Error::Refused(Refusal::RangeEmpty { size_bytes })) = &self {
            let range = HeaderValue::try_from(format!("bytes */{size_bytes}"));
            response.headers_mut().extend(range.ok().map(|range| (CONTENT_RANGE, range)));
        }
        response.extensions_mut().insert(Problem { code, cause: Arc::new(self), details });
        response
    }
}

/// Response if no route matches.
pub(super) async fn no_such_route() -> ApiError {
    HttpError::NoRoute.into()
}

/// Response if the route does not support the method. axum adds `allow`.
pub(super) async fn method_not_allowed() -> ApiError {
    HttpError::Method.into()
}
