//! Request bodies that describe a command: JSON, or a script as plain text.

use axum::extract::{FromRequest, Request};
use sandbox_api::command::{OutputOptions, RunCommand, StartCommand};
use sandbox_api::object::Object;
use serde::Deserialize;

use super::ApiState;
use super::body::{ContentKind, read_whole};
use super::decode::decode;
use super::error::{ApiError, HttpError, Result};
use crate::model::{FieldError, limits};

/// A command from a request body. The body `{}` and an empty one are equal.
pub(super) struct CommandBody<T>(pub(super) T);

/// A request that describes a command.
pub(super) trait CommandRequest: Sized {
    fn from_json(json: &[u8]) -> std::result::Result<Self, FieldError>;

    fn from_script(script: String) -> Self;
}

/// The field that only `commands:run` has.
#[derive(Deserialize)]
struct OutputField {
    output: Option<Object<OutputOptions>>,
}

impl CommandRequest for StartCommand {
    fn from_json(json: &[u8]) -> std::result::Result<Self, FieldError> {
        decode(json)
    }

    fn from_script(script: String) -> Self {
        Self { script: Some(script), ..Self::default() }
    }
}

impl CommandRequest for RunCommand {
    // Decoded in two steps, because errors in a flattened struct do not name their field.
    fn from_json(json: &[u8]) -> std::result::Result<Self, FieldError> {
        let command = decode(json)?;
        let OutputField { output } = decode(json)?;
        Ok(Self { command, output: output.map(|Object(output)| output) })
    }

    fn from_script(script: String) -> Self {
        Self { command: StartCommand::from_script(script), output: None }
    }
}

impl<T: CommandRequest> FromRequest<ApiState> for CommandBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self> {
        let kind = ContentKind::of(request.headers());
        // The memory permit is held until the body is decoded.
        let (bytes, _memory) = read_whole(request, state, limits::MAX_COMMAND_BODY_BYTES).await?;
        match kind {
            ContentKind::Json => Ok(Self(T::from_json(if bytes.is_empty() { b"{}" } else { &bytes })?)),
            ContentKind::PlainText => {
                let script = String::from_utf8(bytes).map_err(|_| FieldError::new("body", "is not UTF-8"))?;
                Ok(Self(T::from_script(script)))
            }
            ContentKind::Other if bytes.is_empty() => Ok(Self(T::from_json(b"{}")?)),
            ContentKind::Other => Err(HttpError::NotJson.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_command_and_options_for_its_output() {
        let json = br#"{"script":"true","output":{"keep":"tail","maxChars":9}}"#;
        let run = RunCommand::from_json(json).unwrap();
        assert_eq!(run.command.script.as_deref(), Some("true"));
        let output = OutputOptions { keep: Some("tail".into()), max_chars: Some(9), max_tokens: None };
        assert_eq!(run.output, Some(output));
    }

    #[test]
    fn an_error_names_its_field() {
        let error = |json: &str| RunCommand::from_json(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(r#"{"script":1}"#), "`script` must be a string");
        assert_eq!(error(r#"{"script":"true","output":[]}"#), "`output` must be an object");
        let number = "must be a whole number from 0 to 18446744073709551615";
        assert_eq!(
            error(r#"{"script":"true","output":{"maxChars":-1}}"#),
            format!("`output.maxChars` {number}")
        );
    }
}
