//! A function of an app that Python code can call.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sandbox_api::tool::{Tool, ToolAnswer, ToolError, ToolErrorType};
use serde_json::Value;
use tokio::time::timeout;

use crate::session::ChatKey;

/// Maximum size of a result as JSON, in bytes (`docs/interpreters.md`).
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// Maximum length of an error's message in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

type Function = dyn Fn(HostCall) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;

/// A function of the app that Python code in a sandbox can call by name: `tools.NAME(key=value)`.
///
/// The code comes from a model, so the function decides what it may do. It runs in the app, as a part of the task that reads
/// the result of the tool `python`. It ends when its time is over, when the code ends, or when the result is no longer read.
///
/// ```
/// use bash_tools::tools::HostTool;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "city": { "type": "string" } },
///     "required": ["city"],
///     "additionalProperties": false,
/// });
/// let weather = HostTool::new("get_weather", "The weather of a city.", schema, |call| async move {
///     Ok(json!({ "city": call.arguments["city"], "celsius": 21 }))
/// });
/// # let _ = weather;
/// ```
#[derive(Clone)]
pub struct HostTool {
    tool: Tool,
    function: Arc<Function>,
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HostCall {
    /// The chat whose code calls.
    pub chat: ChatKey,
    /// The arguments, an object that matches the schema.
    pub arguments: Value,
}

impl HostTool {
    /// Creates a function. The name has letters, digits, `_` and `-`, and no digit first. `input_schema` is the JSON schema
    /// of its arguments (2020-12 or draft 7), which refers only to itself. An error reaches the code as an exception with its
    /// type and message; a panic as an `internal_error`.
    pub fn new<F, R>(name: &str, description: &str, input_schema: Value, function: F) -> Self
    where
        F: Fn(HostCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let tool = Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema,
            output_schema: None,
            timeout_ms: None,
        };
        Self { tool, function: Arc::new(move |call| function(call).boxed()) }
    }

    /// Sets the JSON schema of the result. Default: any value.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.tool.output_schema = Some(schema);
        self
    }

    /// Sets the time for a call, up to 10 minutes. Default: 30 seconds. The time limit of the code applies too.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.tool.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Calls the function.
    pub(in crate::tools) async fn answer(&self, call: HostCall, limit: Duration) -> ToolAnswer {
        let function = Arc::clone(&self.function);
        // The function itself may panic too, before it returns its future.
        let called = AssertUnwindSafe(async move { function(call).await }).catch_unwind();
        let answer = match timeout(limit, called).await {
            Err(_) => error(ToolErrorType::Timeout, "the tool did not answer in time"),
            Ok(Err(_)) => error(ToolErrorType::InternalError, "the tool failed"),
            Ok(Ok(Err(error))) => ToolAnswer::Error(error),
            Ok(Ok(Ok(result))) => ToolAnswer::Result(result),
        };
        within_limits(answer)
    }
}

impl fmt::Debug for HostTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTool").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// An answer that sandboxd accepts. Otherwise the code would wait for another one until its time is over.
fn within_limits(answer: ToolAnswer) -> ToolAnswer {
    match answer {
        ToolAnswer::Result(result) if result.to_string().len() > MAX_RESULT_BYTES => error(
            ToolErrorType::ValidationError,
            &format!("the result of the tool has more than {MAX_RESULT_BYTES} bytes"),
        ),
        ToolAnswer::Error(mut error) => {
            let end = error.message.floor_char_boundary(MAX_MESSAGE_BYTES);
            error.message.truncate(end);
            ToolAnswer::Error(error)
        }
        answer @ ToolAnswer::Result(_) => answer,
    }
}

pub(in crate::tools) fn error(kind: ToolErrorType, message: &str) -> ToolAnswer {
    ToolAnswer::Error(ToolError { kind, message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn answer<F, R>(function: F) -> ToolAnswer
    where
        F: Fn(HostCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        let call = HostCall { chat: ChatKey::chat("1").unwrap(), arguments: json!({ "a": 1 }) };
        HostTool::new("f", "", json!({}), function).answer(call, Duration::from_millis(50)).await
    }

    fn kind_of(answer: &ToolAnswer) -> ToolErrorType {
        match answer {
            ToolAnswer::Error(error) => error.kind,
            ToolAnswer::Result(result) => panic!("{result}"),
        }
    }

    #[tokio::test]
    async fn the_code_gets_an_answer_whatever_the_function_does() {
        let echoed = answer(|call| async move { Ok(call.arguments) }).await;
        assert_eq!(echoed, ToolAnswer::Result(json!({ "a": 1 })));
        let panicked = answer(|call| async move { panic!("{:?}", call.arguments["b"]) }).await;
        assert_eq!(kind_of(&panicked), ToolErrorType::InternalError);
        let panicked_at_once = answer(|call| {
            assert!(call.arguments.is_null());
            async { Ok(Value::Null) }
        });
        assert_eq!(kind_of(&panicked_at_once.await), ToolErrorType::InternalError);
        let silent = answer(|_| std::future::pending()).await;
        assert_eq!(kind_of(&silent), ToolErrorType::Timeout);
        let large = answer(|_| async { Ok("x".repeat(MAX_RESULT_BYTES).into()) }).await;
        assert_eq!(kind_of(&large), ToolErrorType::ValidationError);
        let long =
            ToolError { kind: ToolErrorType::PermissionError, message: "ä".repeat(MAX_MESSAGE_BYTES) };
        let refused = answer(move |_| {
            let long = long.clone();
            async move { Err(long) }
        });
        let ToolAnswer::Error(refused) = refused.await else { panic!("a result") };
        assert_eq!(
            (refused.kind, refused.message.len()),
            (ToolErrorType::PermissionError, MAX_MESSAGE_BYTES)
        );
    }
}
