//! Tools that a client offers to the code in a context, the calls of the code, and the answers of the client.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that code in a context can call. The client runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Name: letters, digits, `_` and `-`, and not a digit first.
    pub name: String,
    /// What it does. The code can search for it.
    #[serde(default)]
    pub description: String,
    /// JSON schema of its arguments (2020-12 or draft 7). It refers only to itself and does not recurse.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input_schema: Value,
    /// JSON schema of its result. Default: any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output_schema: Option<Value>,
    /// Time for the answer to a call in milliseconds, default 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A call of a tool. Its arguments match the tool's schema. The code waits for the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Number of the call in its context, from 1.
    pub call: u64,
    /// Name of the tool.
    pub name: String,
    /// The arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub arguments: Value,
    /// Time for the answer in milliseconds.
    pub timeout_ms: u64,
}

/// Request body of `POST …/contexts/{contextId}/toolCalls/{call}`: the result of the tool, or its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ToolAnswer {
    /// The result: up to 1 MiB of JSON that matches the output schema.
    Result(Value),
    /// The error. The code gets it as an exception.
    Error(ToolError),
}

/// An error of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// What kind of error.
    #[serde(rename = "type", default)]
    pub kind: ToolErrorType,
    /// Message for the code, up to 16 KiB.
    pub message: String,
}

/// What kind of error a tool had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorType {
    /// The code may not do this.
    PermissionError,
    /// The tool did not answer in time.
    Timeout,
    /// The arguments or the result do not match the schema.
    ValidationError,
    /// The tool failed.
    #[default]
    InternalError,
}

/// How a call of a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// With a result.
    Ok,
    /// With this error of the client.
    PermissionError,
    /// It was not answered in time, or with this error.
    Timeout,
    /// The result did not match the schema, or the client answered with this error.
    ValidationError,
    /// With this error of the client.
    InternalError,
    /// Its run ended before the answer.
    RunOver,
}

impl From<ToolErrorType> for ToolCallStatus {
    fn from(kind: ToolErrorType) -> Self {
        match kind {
            ToolErrorType::PermissionError => Self::PermissionError,
            ToolErrorType::Timeout => Self::Timeout,
            ToolErrorType::ValidationError => Self::ValidationError,
            ToolErrorType::InternalError => Self::InternalError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_result_or_an_error() {
        let of = |text: &str| serde_json::from_str::<ToolAnswer>(text);
        assert_eq!(of(r#"{"result":null}"#).unwrap(), ToolAnswer::Result(Value::Null));
        let error = ToolError { kind: ToolErrorType::PermissionError, message: "no".into() };
        assert_eq!(
            of(r#"{"error":{"type":"permission_error","message":"no"}}"#).unwrap(),
            ToolAnswer::Error(error)
        );
        let ToolAnswer::Error(error) = of(r#"{"error":{"message":"no"}}"#).unwrap() else {
            panic!("a result")
        };
        assert_eq!(error.kind, ToolErrorType::InternalError);
        for wrong in [r#"{}"#, r#"{"result":1,"error":{"message":"x"}}"#, r#"{"other":1}"#, "1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
