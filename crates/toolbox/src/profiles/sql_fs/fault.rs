//! Failures that the interface knows: results with `ok: false`.

use sandbox_api::ErrorCode;
use serde::Serialize;
use serde_json::Value;

use crate::Error;
use crate::error::shortened;

/// A failure.
#[derive(Debug, Default, Serialize)]
pub(super) struct Fault {
    /// Always false.
    ok: bool,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// How often the text to replace occurs.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrences: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl Fault {
    pub(super) fn new(code: &'static str, error: impl Into<String>) -> Self {
        Self { error: error.into(), code: Some(code), ..Self::default() }
    }

    /// A failure with a file.
    pub(super) fn with_path(self, path: &str) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// A failure that concerns a file.
    pub(super) fn of_file(path: &str) -> impl Fn(Error) -> Self {
        move |error| Self::from(error).with_path(path)
    }

    pub(super) fn message(&self) -> &str {
        &self.error
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = shortened(&error.to_string());
        match &error {
            Error::UnknownSandbox { .. } => Self { error: "sandbox not found".into(), ..Self::default() },
            Error::NoFile { .. } => Self::new("ENOENT", "file not found"),
            Error::NotText { .. } => Self::new("NOT_TEXT", message),
            Error::Argument { .. } | Error::Arguments { .. } => Self::new("INVALID_INPUT", message),
            Error::Client { source } => Self::of_client(source, message),
            _ => Self { error: message, ..Self::default() },
        }
    }
}

impl Fault {
    fn of_client(error: &sandbox_client::Error, message: String) -> Self {
        let Some(body) = error.body() else { return Self { error: message, ..Self::default() } };
        match (body.code, body.details.get("occurrences").and_then(Value::as_u64)) {
            (_, Some(0)) => Self::new("EDIT_NO_MATCH", "oldString was not found"),
            (_, Some(occurrences)) => {
                let message =
                    format!("oldString appears {occurrences} times; pass replaceAll or include more context");
                Self { occurrences: Some(occurrences), ..Self::new("EDIT_NOT_UNIQUE", message) }
            }
            (ErrorCode::NotFound, _) => Self::new("ENOENT", message),
            (ErrorCode::AlreadyExists, _) => Self::new("EEXIST", message),
            (ErrorCode::TooLarge, _) => Self::new("PAYLOAD_TOO_LARGE", message),
            (ErrorCode::InvalidRequest, _) => Self::new("INVALID_INPUT", message),
            (ErrorCode::Forbidden, _) => Self::new("FORBIDDEN", message),
            (ErrorCode::Refused, _) => Self::new("EINVAL", message),
            (ErrorCode::InsufficientStorage, _) => Self::new("ENOSPC", message),
            _ => Self { error: message, ..Self::default() },
        }
    }
}

/// The result, or why there is none.
pub(super) fn or_fault(result: Result<impl Serialize, Fault>) -> Value {
    match result {
        Ok(result) => json(&result),
        Err(fault) => json(&fault),
    }
}

pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
