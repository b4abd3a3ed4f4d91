//! Definitions of the tools for a model. The toolbox has their names, schemas and descriptions.

use serde_json::{Value, json};
use toolbox::chat;

pub use chat::{DescriptionContext, Tool};

/// Definition of a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The tool.
    pub tool: Tool,
    /// Purpose and usage, for the model.
    pub description: String,
    /// JSON Schema of the input (draft 2020-12), an object.
    pub input_schema: Value,
}

/// Returns the definitions of the tools that are usable: without ports there is nothing to expose, and no `sandboxUrl`.
pub fn definitions(context: &DescriptionContext) -> Vec<Definition> {
    let defined = chat::definitions(context).into_iter();
    defined
        .map(|(tool, definition)| Definition {
            tool,
            description: definition.description,
            input_schema: Value::Object(definition.input_schema),
        })
        .collect()
}

impl Definition {
    /// Definition in the format of OpenAI's chat completions and compatible APIs.
    pub fn to_openai(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": self.tool.name(),
                "description": self.description,
                "parameters": self.input_schema,
            },
        })
    }

    /// Definition in the format of Anthropic's messages API.
    pub fn to_anthropic(&self) -> Value {
        json!({
            "name": self.tool.name(),
            "description": self.description,
            "input_schema": self.input_schema,
        })
    }
}

#[cfg(test)]
mod tests {
    use toolbox::chat::OutputLimits;

    use super::*;

    #[test]
    fn both_formats_have_the_same_schema() {
        let context = DescriptionContext {
            ports: vec![3000],
            programs: Vec::new(),
            timeout_s: 30,
            output: OutputLimits { max_stdout_chars: 12_000, max_stderr_chars: 12_000 },
            python: None,
        };
        let bash = &definitions(&context)[2];
        assert_eq!(bash.to_openai()["function"]["name"], "bash");
        assert_eq!(bash.to_openai()["function"]["parameters"], bash.to_anthropic()["input_schema"]);
        assert_eq!(bash.to_openai()["type"], "function");
    }
}
