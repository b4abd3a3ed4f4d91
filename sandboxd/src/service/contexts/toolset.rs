//! The tools of a context: their definitions, checked, and the checks of arguments and results.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::model::tool::Tool;
use crate::model::{FieldError, limits};
use crate::schemas::{Schema, Unsupported};

/// Checks the definitions of the tools of a context.
pub(super) fn check(tools: &[Tool]) -> Result<(), FieldError> {
    let mut names = HashSet::new();
    let mut patterns_left = limits::MAX_SCHEMA_PATTERNS;
    for (at, tool) in tools.iter().enumerate() {
        if !names.insert(tool.name.as_str()) {
            return Err(FieldError::new(format!("tools[{at}].name"), "is that of an earlier tool"));
        }
        Offered::new(tool, &mut patterns_left)
            .map_err(|(field, problem)| FieldError::new(format!("tools[{at}].{field}"), problem.0))?;
    }
    Ok(())
}

/// A tool, ready to check values.
#[derive(Debug)]
pub(super) struct Offered {
    input: Schema,
    output: Option<Schema>,
}

impl Offered {
    fn new(tool: &Tool, patterns_left: &mut usize) -> Result<Self, (&'static str, Unsupported)> {
        let mut schema =
            |field, schema: &Value| Schema::new(schema, patterns_left).map_err(|why| (field, why));
        let input = schema("inputSchema", &tool.input_schema)?;
        let output = tool.output_schema.as_ref().map(|output| schema("outputSchema", output)).transpose()?;
        Ok(Self { input, output })
    }

    /// Checks what the code passes: JSON that matches the input schema.
    pub(super) fn arguments(&self, text: &[u8]) -> Result<Value, String> {
        let arguments: Value =
            serde_json::from_slice(text).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        let checked = self.input.check(&arguments);
        checked.map_err(|mismatch| format!("the arguments do not match the schema: {}", mismatch.0))?;
        Ok(arguments)
    }

    /// Checks what the client answers.
    pub(super) fn result(&self, result: &Value) -> Result<(), String> {
        match &self.output {
            None => Ok(()),
            Some(schema) => schema
                .check(result)
                .map_err(|mismatch| format!("the result does not match the schema: {}", mismatch.0)),
        }
    }
}

/// The tools of a context. Schemas are prepared when a tool is first called.
#[derive(Debug)]
pub(super) struct Toolset {
    tools: HashMap<String, Tool>,
    offered: HashMap<String, Arc<Offered>>,
}

impl Toolset {
    pub(super) fn new(tools: Vec<Tool>) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
        Self { tools, offered: HashMap::new() }
    }

    /// The tool with this name.
    pub(super) fn find(&mut self, name: &str) -> Result<(&Tool, Arc<Offered>), String> {
        let tool = self.tools.get(name).ok_or_else(|| format!("there is no tool named {name:?}"))?;
        if !self.offered.contains_key(name) {
            let offered = Offered::new(tool, &mut limits::MAX_SCHEMA_PATTERNS.clone());
            let offered = offered.map_err(|(field, problem)| format!("{field}: {}", problem.0))?;
            self.offered.insert(name.to_owned(), Arc::new(offered));
        }
        Ok((tool, Arc::clone(&self.offered[name])))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn tool(name: &str, input_schema: Value) -> Tool {
        let (description, timeout) = (String::new(), Duration::from_secs(1));
        Tool { name: name.into(), description, input_schema, output_schema: None, timeout }
    }

    #[test]
    fn a_problem_names_its_field() {
        let twice = [tool("a", json!({})), tool("a", json!({}))];
        assert_eq!(check(&twice).unwrap_err().field, "tools[1].name");
        let remote = [tool("a", json!({})), tool("b", json!({ "$ref": "https://example.com" }))];
        assert_eq!(check(&remote).unwrap_err().field, "tools[1].inputSchema");
        let output = Tool { output_schema: Some(json!({ "type": 1 })), ..tool("a", json!({})) };
        assert_eq!(check(&[output]).unwrap_err().field, "tools[0].outputSchema");
    }

    #[test]
    fn arguments_and_results_are_checked() {
        let add = Tool {
            output_schema: Some(json!({ "type": "number" })),
            ..tool("add", json!({ "type": "object", "required": ["a"] }))
        };
        let mut tools = Toolset::new(vec![add]);
        let (_, offered) = tools.find("add").unwrap();
        assert_eq!(offered.arguments(b"{\"a\":1}"), Ok(json!({ "a": 1 })));
        assert!(offered.arguments(b"{}").unwrap_err().contains("do not match"));
        assert!(offered.arguments(b"{").unwrap_err().contains("not JSON"));
        assert_eq!(offered.result(&json!(1)), Ok(()));
        assert!(offered.result(&json!("1")).is_err());
        assert!(tools.find("other").is_err());
    }
}
