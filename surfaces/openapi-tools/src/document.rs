//! The OpenAPI document of the tools.

use serde_json::{Map, Value, json};
use toolbox::{Definition, Tool};

/// Returns the document (OpenAPI 3.1). Paths are relative to `/tools`.
pub(crate) fn document() -> Value {
    let paths: Map<String, Value> = Tool::ALL.into_iter().map(|tool| path_of(&tool.definition())).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sandboxd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tools that run in a sandbox: a Linux machine of this conversation, separate from the user's.",
        },
        "servers": [{ "url": "/tools" }],
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "security": [{ "token": [] }],
    })
}

fn path_of(definition: &Definition) -> (String, Value) {
    let required: &[Value] = match definition.input_schema.get("required") {
        Some(Value::Array(fields)) => fields,
        _ => &[],
    };
    let result = definition.output_schema.clone().map_or_else(without_schema, Value::Object);
    let operation = json!({
        "operationId": definition.name,
        "summary": definition.title,
        "description": definition.description,
        "requestBody": {
            "required": !required.is_empty(),
            "content": { "application/json": { "schema": definition.input_schema } },
        },
        "responses": {
            "200": { "description": "The result.", "content": { "application/json": { "schema": result } } },
            "422": {
                "description": "The call failed. The model can read why.",
                "content": { "application/json": { "schema": failure() } },
            },
        },
    });
    (format!("/{}", definition.name), json!({ "post": operation }))
}

/// The result of a tool whose result may be an image.
fn without_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "images": { "type": "array", "items": { "type": "string", "description": "Data URL (RFC 2397)." } },
        },
    })
}

fn failure() -> Value {
    json!({ "type": "object", "properties": { "error": { "type": "string" } }, "required": ["error"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_an_operation_with_its_own_id() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), Tool::ALL.len());
        for tool in Tool::ALL {
            let operation = &paths[&format!("/{}", tool.name())]["post"];
            assert_eq!(operation["operationId"], tool.name());
            assert_eq!(operation["requestBody"]["content"]["application/json"]["schema"]["type"], "object");
        }
        let bash = &paths["/bash"]["post"]["requestBody"];
        assert_eq!(bash["required"], true);
        assert_eq!(paths["/sandbox_info"]["post"]["requestBody"]["required"], false);
    }
}
