//! Errors as clients see them.

use sandbox_api::ErrorCode;
use serde_json::{Map, Value};

use super::limits;

/// The part of an error that clients see. Its cause is only logged.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicError {
    /// For programs. Decides the status of the response.
    pub code: ErrorCode,
    /// Human-readable message.
    pub message: String,
    /// Additional facts, for programs.
    pub details: Map<String, Value>,
    /// Seconds after which the client may retry.
    pub retry_after_seconds: Option<u64>,
}

impl PublicError {
    /// Creates an error. `details` is an object.
    pub fn new(code: ErrorCode, message: impl Into<String>, details: Value) -> Self {
        let details = match details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        let retry_after_seconds = code.is_retryable().then_some(limits::RETRY_AFTER_SECONDS);
        Self { code, message: message.into(), details, retry_after_seconds }
    }

    /// Replaces the time of a retry, which the code decides otherwise.
    pub fn with_retry_after(mut self, seconds: Option<u64>) -> Self {
        self.retry_after_seconds = seconds;
        self
    }
}
