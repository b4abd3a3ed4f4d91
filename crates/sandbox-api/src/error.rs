//! Error responses: one body and a closed list of codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Human-readable message.
    pub error: String,
    /// Error code, for programs.
    pub code: ErrorCode,
    /// Additional facts by name: `field`, `resource`, `limit`, …
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: serde_json::Map<String, serde_json::Value>,
    /// Id of the request in the daemon's log: `req_…`.
    #[serde(default)]
    pub request_id: String,
}

/// Error code. Each code has one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the request is invalid. `details.field` names the field.
    InvalidRequest,
    /// 401: the token is missing or invalid.
    Unauthenticated,
    /// 403: the host or origin is not allowed, or only the operator can allow the request.
    Forbidden,
    /// 404: `details.resource` names the type of the missing resource.
    NotFound,
    /// 404: the repository does not exist, or is private.
    RepoNotFound,
    /// 404: the package or repository has no such version, or no versions of packages fit together.
    VersionNotFound,
    /// 404: the repository has no such branch, tag or commit.
    TagNotFound,
    /// 404: the index has no such Python package.
    PackageNotFound,
    /// 405: the `allow` header lists the supported methods.
    MethodNotAllowed,
    /// 409: the current state of the resource does not allow the operation.
    WrongState,
    /// 409: the resource already exists.
    AlreadyExists,
    /// 412: the file does not meet `if-match` or `if-none-match`, or changed during an edit.
    PreconditionFailed,
    /// 413: the size or number exceeds `details.limit`.
    TooLarge,
    /// 415: the route expects JSON.
    UnsupportedMediaType,
    /// 416: the file has no byte in the range. `details.sizeBytes` is its size.
    RangeNotSatisfiable,
    /// 422: the request is valid but cannot be carried out, or policy forbids it.
    Refused,
    /// 422: the index has no wheel of a Python package for this platform, and its source code could not be built.
    NoWheel,
    /// 429: a capacity limit is reached. Retry after `retry-after` seconds.
    CapacityExhausted,
    /// 429: too many requests.
    RateLimited,
    /// 500: a bug in the daemon.
    Internal,
    /// 503: the engine or the agent is unavailable, or the daemon starts or stops.
    Unavailable,
    /// 503: the request must be in the audit record, which cannot be written. Nothing was done.
    AuditUnavailable,
    /// 504: a deadline of the daemon expired.
    DeadlineExceeded,
    /// 507: the workspace or the engine's disk is full.
    InsufficientStorage,
}

/// Writes the code as in a response: `wrong_state`.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ErrorCode {
    /// HTTP status of this code (RFC 9110; 429 is RFC 6585, 507 is RFC 4918).
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound
            | Self::RepoNotFound
            | Self::VersionNotFound
            | Self::TagNotFound
            | Self::PackageNotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::WrongState | Self::AlreadyExists => 409,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::RangeNotSatisfiable => 416,
            Self::Refused | Self::NoWheel => 422,
            Self::CapacityExhausted | Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable | Self::AuditUnavailable => 503,
            Self::DeadlineExceeded => 504,
            Self::InsufficientStorage => 507,
        }
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::CapacityExhausted
            | Self::RateLimited
            | Self::Unavailable
            | Self::AuditUnavailable
            | Self::DeadlineExceeded => true,
            Self::InvalidRequest
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::NotFound
            | Self::RepoNotFound
            | Self::VersionNotFound
            | Self::TagNotFound
            | Self::PackageNotFound
            | Self::MethodNotAllowed
            | Self::WrongState
            | Self::AlreadyExists
            | Self::TooLarge
            | Self::PreconditionFailed
            | Self::RangeNotSatisfiable
            | Self::UnsupportedMediaType
            | Self::Refused
            | Self::NoWheel
            | Self::Internal
            | Self::InsufficientStorage => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_in_a_response() {
        assert_eq!(ErrorCode::InsufficientStorage.to_string(), "insufficient_storage");
        assert_eq!(ErrorCode::Internal.to_string(), "internal");
    }
}
