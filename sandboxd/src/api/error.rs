//! Converts errors to responses. The message is the error's own. Its cause goes to the log.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandbox_api::{ErrorBody, ErrorCode};
use serde_json::{Map, Value, json};

use crate::model::echo::{Echo, cut};
use crate::model::rates::RateClass;
use crate::model::{FieldError, FileRefusal, PublicError, Refusal, Scope, limits};
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
#[error("{}", self.to_public().message)]
pub(super) enum HttpError {
    Unauthenticated,
    TooManyFailures { retry_after: u64 },
    TooManyRequests { class: RateClass, per_minute: u32, retry_after: u64 },
    MissingScope { scope: Scope },
    Host(String),
    Shape(&'static str),
    Origin(String),
    NoRoute,
    Method,
    BodyTooLarge { limit: usize },
    NotJson,
    BodyCut(#[source] axum::Error),
    BodyLate,
    NoUpgrade(#[source] axum::extract::ws::rejection::WebSocketUpgradeRejection),
    NoTunnel,
    UploadPaused,
    NoMemoryForBody,
    Stopping,
}

impl HttpError {
    fn to_public(&self) -> PublicError {
        match self {
            Self::Unauthenticated => {
                PublicError::new(ErrorCode::Unauthenticated, "a valid token is required", json!({}))
            }
            Self::TooManyFailures { retry_after } => PublicError::new(
                ErrorCode::RateLimited,
                format!("too many requests with a wrong token; try again in {retry_after} s"),
                json!({}),
            )
            .with_retry_after(Some(*retry_after)),
            Self::TooManyRequests { class, per_minute, retry_after } => PublicError::new(
                ErrorCode::RateLimited,
                format!(
                    "more than {per_minute} requests in a minute ({}); try again in {retry_after} s",
                    class.as_str()
                ),
                json!({ "class": class.as_str(), "limit": per_minute }),
            )
            .with_retry_after(Some(*retry_after)),
            Self::MissingScope { scope } => PublicError::new(
                ErrorCode::Forbidden,
                format!("the token does not have the scope `{}`", scope.as_str()),
                json!({ "scope": scope.as_str() }),
            ),
            Self::Host(host) => PublicError::new(
                ErrorCode::Forbidden,
                format!(
                    "the host {} is not a known name of this daemon; see SANDBOXD_ALLOWED_HOSTS",
                    Echo(host)
                ),
                json!({}),
            ),
            Self::Shape(problem) => PublicError::new(
                ErrorCode::InvalidRequest,
                format!("the request is ambiguous: {problem}"),
                json!({}),
            ),
            Self::Origin(origin) => PublicError::new(
                ErrorCode::Forbidden,
                format!("requests from the origin {} are not allowed", Echo(origin)),
                json!({}),
            ),
            Self::NoRoute => {
                PublicError::new(ErrorCode::NotFound, "no such route", json!({ "resource": "route" }))
            }
            Self::Method => PublicError::new(
                ErrorCode::MethodNotAllowed,
                "this route does not support the method",
                json!({}),
            ),
            Self::BodyTooLarge { limit } => PublicError::new(
                ErrorCode::TooLarge,
                format!("the body is larger than {limit} bytes"),
                json!({ "limit": limit }),
            ),
            Self::NotJson => PublicError::new(
                ErrorCode::UnsupportedMediaType,
                "the body must be JSON (content-type: application/json)",
                json!({}),
            ),
            Self::BodyCut(_) => PublicError::new(
                ErrorCode::InvalidRequest,
                "the body could not be read to the end",
                json!({ "field": "body" }),
            ),
            // The client caused the delay, so a wait would not help.
            Self::BodyLate => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!("the body did not arrive within {:?}", limits::REQUEST_BODY),
                json!({ "field": "body" }),
            )
            .with_retry_after(None),
            Self::NoUpgrade(_) => PublicError::new(
                ErrorCode::InvalidRequest,
                "this route is a WebSocket; request an upgrade (RFC 6455)",
                json!({ "field": "upgrade" }),
            ),
            Self::NoTunnel => PublicError::new(
                ErrorCode::InvalidRequest,
                "this route carries a TCP connection; request an upgrade (`upgrade: tcp`)",
                json!({ "field": "upgrade" }),
            ),
            Self::UploadPaused => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!("no part of the body arrived for {:?}", limits::UPLOAD_PAUSE),
                json!({ "field": "body" }),
            )
            .with_retry_after(None),
            Self::NoMemoryForBody => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!(
                    "no memory was free for the body within {:?}, because of other large bodies",
                    limits::REQUEST_BODY
                ),
                json!({ "field": "body" }),
            ),
            Self::Stopping => PublicError::new(
                ErrorCode::Unavailable,
                "the daemon is shutting down and accepts no new requests; retry after its restart",
                json!({}),
            ),
        }
    }
}

impl ApiError {
    fn to_public(&self) -> PublicError {
        match self {
            Self::Service(error) => error.to_public(),
            Self::Http(error) => error.to_public(),
        }
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

impl From<service::ImportFailed<HttpError>> for ApiError {
    fn from(error: service::ImportFailed<HttpError>) -> Self {
        match error {
            service::ImportFailed::Service(error) => Self::Service(error),
            service::ImportFailed::Source(error) => Self::Http(error),
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
    message: String,
    details: Map<String, Value>,
}

/// A body with the message in a second field.
#[derive(serde::Serialize)]
struct WithDetail {
    #[serde(flatten)]
    body: ErrorBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Problem {
    /// Writes the body of the response. `detail` repeats the message in a field of this name, in which clients of
    /// open-terminal expect it.
    pub(super) fn write_out(self, mut response: Response, request_id: &str, detail: bool) -> Response {
        let detail = detail.then(|| self.message.clone());
        let body = ErrorBody {
            error: self.message,
            code: self.code,
            details: self.details,
            request_id: request_id.to_owned(),
        };
        let json = serde_json::to_vec(&WithDetail { body, detail }).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, super::JSON);
        *response.body_mut() = Body::from(json);
        response
    }
}

/// Returns the message for the client.
pub(super) fn sentence(error: &PublicError) -> String {
    match error.code {
        // The message of an internal error belongs in the log.
        ErrorCode::Internal => "sandboxd failed; its log has the reason under this request id".to_owned(),
        _ => cut(&error.message, limits::MAX_ERROR_BYTES).into_owned(),
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
        let public = self.to_public();
        let message = sentence(&public);
        let PublicError { code, mut details, retry_after_seconds, .. } = public;
        details.values_mut().for_each(bound);
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        if let Some(seconds) = retry_after_seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Service(service::Error::Refused(Refusal::File(FileRefusal::RangeEmpty { size_bytes }))) =
            &self
        {
            let range = HeaderValue::try_from(format!("bytes */{size_bytes}"));
            response.headers_mut().extend(range.ok().map(|range| (CONTENT_RANGE, range)));
        }
        response.extensions_mut().insert(Problem { code, cause: Arc::new(self), message, details });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_http_layer_has_its_code_details_and_retry() {
        let cut = || axum::Error::new(std::io::Error::other("said"));
        for (error, expected) in [
            (HttpError::Unauthenticated, "unauthenticated {} None a valid token is required"),
            (
                HttpError::TooManyFailures { retry_after: 7 },
                "rate_limited {} Some(7) too many requests with a wrong token; try again in 7 s",
            ),
            (
                HttpError::TooManyRequests { class: RateClass::Reads, per_minute: 9, retry_after: 2 },
                r#"rate_limited {"class":"reads","limit":9} Some(2) more than 9 requests in a minute (reads); try again in 2 s"#,
            ),
            (
                HttpError::Host("a\n".into()),
                r#"forbidden {} None the host "a\n" is not a known name of this daemon; see SANDBOXD_ALLOWED_HOSTS"#,
            ),
            (HttpError::Shape("said"), "invalid_request {} None the request is ambiguous: said"),
            (
                HttpError::Origin("b".into()),
                r#"forbidden {} None requests from the origin "b" are not allowed"#,
            ),
            (HttpError::NoRoute, r#"not_found {"resource":"route"} None no such route"#),
            (HttpError::Method, "method_not_allowed {} None this route does not support the method"),
            (
                HttpError::BodyTooLarge { limit: 9 },
                r#"too_large {"limit":9} None the body is larger than 9 bytes"#,
            ),
            (
                HttpError::NotJson,
                "unsupported_media_type {} None the body must be JSON (content-type: application/json)",
            ),
            (
                HttpError::BodyCut(cut()),
                r#"invalid_request {"field":"body"} None the body could not be read to the end"#,
            ),
            (
                HttpError::BodyLate,
                r#"deadline_exceeded {"field":"body"} None the body did not arrive within 120s"#,
            ),
            (
                HttpError::UploadPaused,
                r#"deadline_exceeded {"field":"body"} None no part of the body arrived for 60s"#,
            ),
            (
                HttpError::NoMemoryForBody,
                r#"capacity_exhausted {"field":"body"} Some(5) no memory was free for the body within 120s, because of other large bodies"#,
            ),
            (
                HttpError::Stopping,
                "unavailable {} Some(5) the daemon is shutting down and accepts no new requests; retry after its restart",
            ),
        ] {
            let PublicError { code, message, details, retry_after_seconds } = error.to_public();
            assert_eq!(format!("{code} {} {retry_after_seconds:?} {message}", json!(details)), expected);
            assert_eq!(error.to_string(), message);
        }
    }
}
