//! How a request is refused: one body, a closed list of codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// A sentence for people.
    pub error: String,
    /// The kind, for programs.
    pub code: ErrorCode,
    /// Facts, by name: `field`, `resource`, `limit`, …
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub details: serde_json::Map<String, serde_json::Value>,
    /// The id the request has in the daemon's log: `req_…`.
    #[serde(default)]
    pub request_id: String,
}

/// What went wrong. Each code has one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: could not be understood; `details.field` names the field.
    InvalidRequest,
    /// 401: no valid token.
    Unauthenticated,
    /// 403: a host or an origin that is not allowed, or what only the operator can allow.
    Forbidden,
    /// 404: `details.resource` says of what kind.
    NotFound,
    /// 405: `allow` lists the methods there are.
    MethodNotAllowed,
    /// 409: the thing is in a state that does not allow it.
    WrongState,
    /// 409: there is one already.
    AlreadyExists,
    /// 412: the file is not as `if-match` or `if-none-match` says.
    PreconditionFailed,
    /// 413: `details.limit` in bytes.
    TooLarge,
    /// 415: a JSON route without JSON.
    UnsupportedMediaType,
    /// 416: the file has no byte of the range; `details.sizeBytes`.
    RangeNotSatisfiable,
    /// 422: understood, and against policy.
    Refused,
    /// 429: no room; try after `retry-after` seconds.
    CapacityExhausted,
    /// 429: too many requests.
    RateLimited,
    /// 500: a bug.
    Internal,
    /// 503: engine or agent away, or the daemon starts or stops.
    Unavailable,
    /// 504: the daemon's own deadline passed.
    DeadlineExceeded,
    /// 507: the workspace is full.
    InsufficientStorage,
}

/// As it is in an answer: `wrong_state`.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ErrorCode {
    /// The HTTP status of this code (RFC 9110; 429 is RFC 6585, 507 is RFC 4918).
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::WrongState | Self::AlreadyExists => 409,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::RangeNotSatisfiable => 416,
            Self::Refused => 422,
            Self::CapacityExhausted | Self::RateLimited => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
            Self::InsufficientStorage => 507,
        }
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::CapacityExhausted | Self::RateLimited | Self::Unavailable | Self::DeadlineExceeded => true,
            Self::InvalidRequest
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::WrongState
            | Self::AlreadyExists
            | Self::TooLarge
            | Self::PreconditionFailed
            | Self::RangeNotSatisfiable
            | Self::UnsupportedMediaType
            | Self::Refused
            | Self::Internal
            | Self::InsufficientStorage => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_as_it_is_in_an_answer() {
        assert_eq!(ErrorCode::InsufficientStorage.to_string(), "insufficient_storage");
        assert_eq!(ErrorCode::Internal.to_string(), "internal");
    }
}
