//! Tools of a context: their definitions, and the handler of the answers to their calls.

use std::time::Duration;

use sandbox_api::Done;
use sandbox_api::context::Language;
use sandbox_api::tool::{Tool as WireTool, ToolAnswer};

use super::body::Json;
use super::caller::User;
use super::command::text;
use super::error::Result;
use super::openapi::InToolCall;
use super::openapi::answers::*;
use super::params::{self, Path};
use crate::model::field::checked;
use crate::model::tool::Tool;
use crate::model::{FieldError, Refusal, limits};

/// Answer a call of a tool.
///
/// The code that calls the tool waits for this. Only the token that runs the code can answer, and once: then, and after the
/// time for the answer, the response is 409. A result that does not match the output schema of the tool returns 400, and the
/// code gets a `validation_error`.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/contexts/{contextId}/toolCalls/{call}", operation_id = "answerToolCall",
    tag = "contexts", params(InToolCall), request_body = ToolAnswer,
    responses((status = 200, body = Done), ByName, ByBody, BySandbox))]
pub(super) async fn answer(
    User(access): User,
    Path((id, context, call)): Path<(String, String, String)>,
    Json(answer): Json<ToolAnswer>,
) -> Result<Json<Done>> {
    let (id, context) = (access.sandbox(params::sandbox(&id)?)?, params::context(&context)?);
    let call = params::tool_call(&call)?;
    access.contexts().answer(&id, &context, call, access.principal(), answer).await?;
    Ok(Json(Done::OK))
}

/// Checks the definitions of tools, except for their schemas.
pub(super) fn tools_of(tools: Vec<WireTool>, language: Language) -> Result<Vec<Tool>> {
    if !tools.is_empty() && language == Language::Bash {
        return Err(FieldError::new("tools", "cannot be called from bash").into());
    }
    if tools.len() > limits::MAX_TOOLS {
        let limit = limits::MAX_TOOLS as u64;
        return Err(Refusal::TooMany { what: "tools".into(), limit }.into());
    }
    let tools: Vec<Tool> = tools.into_iter().enumerate().map(tool_of).collect::<Result<_>>()?;
    if tools.iter().map(size_of).sum::<usize>() > limits::MAX_TOOLS_BYTES {
        let limit = limits::MAX_TOOLS_BYTES as u64;
        return Err(Refusal::TooLarge { what: "`tools`".into(), limit }.into());
    }
    Ok(tools)
}

fn tool_of((at, tool): (usize, WireTool)) -> Result<Tool> {
    let field = |name: &str| format!("tools[{at}].{name}");
    if !is_name(&tool.name) {
        let problem = "must have 1 to 64 letters, digits, _ or -, and must not begin with a digit or -";
        return Err(FieldError::new(field("name"), problem).into());
    }
    if !tool.input_schema.is_object() {
        return Err(FieldError::new(field("inputSchema"), "must be an object").into());
    }
    if tool.output_schema.as_ref().is_some_and(|schema| !schema.is_object()) {
        return Err(FieldError::new(field("outputSchema"), "must be an object").into());
    }
    let default = limits::DEFAULT_TOOL_TIMEOUT.as_millis() as u64;
    let range = 1..=limits::MAX_TOOL_TIMEOUT.as_millis() as u64;
    let timeout_ms = checked(&field("timeoutMs"), tool.timeout_ms.unwrap_or(default), range)?;
    Ok(Tool {
        description: text(&field("description"), tool.description, limits::MAX_TOOLS_BYTES)?,
        name: tool.name,
        input_schema: tool.input_schema,
        output_schema: tool.output_schema,
        timeout: Duration::from_millis(timeout_ms),
    })
}

fn is_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    name.len() <= limits::MAX_TOOL_NAME_BYTES
        && name.bytes().all(is_valid)
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn size_of(tool: &Tool) -> usize {
    let output = tool.output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
    tool.name.len() + tool.description.len() + tool.input_schema.to_string().len() + output
}
