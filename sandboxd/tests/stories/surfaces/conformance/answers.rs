//! What the suite expects of its tools, prompts and resources.

use serde_json::{Value, json};

/// A red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A sound without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// Tools without arguments.
const TOOLS: [&str; 24] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_reconnection",
];

pub(super) fn tools() -> Vec<Value> {
    let tool = |name: &str, schema: Value| json!({ "name": name, "description": "A fixture.", "inputSchema": schema });
    let with_text = |name: &str, argument: &str| {
        let properties = json!({ argument: { "type": "string" } });
        tool(name, json!({ "type": "object", "properties": properties, "required": [argument] }))
    };
    let mut tools: Vec<Value> =
        TOOLS.iter().map(|name| tool(name, json!({ "type": "object", "properties": {} }))).collect();
    tools.push(with_text("test_sampling", "prompt"));
    tools.push(with_text("test_elicitation", "message"));
    tools.push(tool("json_schema_2020_12_tool", schema_2020_12()));
    tools
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

pub(super) fn text(text: &str) -> Value {
    result(json!([{ "type": "text", "text": text }]))
}

fn result(content: Value) -> Value {
    json!({ "resultType": "complete", "content": content })
}

/// Results that are always the same.
pub(super) fn result_of(tool: &str) -> Option<Value> {
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let resource = |uri: &str, mime_type: &str, text: &str| json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } });
    let content = match tool {
        "test_simple_text" => {
            json!([{ "type": "text", "text": "This is a simple text response for testing." }])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => {
            json!([resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content."
            )])
        }
        "test_multiple_content_types" => json!([
            { "type": "text", "text": "Multiple content types test:" },
            image,
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            let mut failed = self::text(text);
            failed["isError"] = true.into();
            return Some(failed);
        }
        "test_reconnection" | "json_schema_2020_12_tool" => json!([{ "type": "text", "text": "done" }]),
        _ => return None,
    };
    Some(result(content))
}

/// The forms that tools ask the user to fill in.
pub(super) fn form_of(tool: &str, message: &str) -> Option<Value> {
    let (message, schema) = match tool {
        "test_elicitation" => (
            message,
            json!({
                "type": "object",
                "properties": {
                    "username": { "type": "string", "description": "User's response" },
                    "email": { "type": "string", "description": "User's email address" },
                },
                "required": ["username", "email"],
            }),
        ),
        "test_elicitation_sep1034_defaults" => ("All fields have defaults.", form_with_defaults()),
        "test_elicitation_sep1330_enums" => ("Choose.", form_with_choices()),
        _ => return None,
    };
    Some(json!({ "message": message, "requestedSchema": schema }))
}

fn form_with_defaults() -> Value {
    let states = ["active", "inactive", "pending"];
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": states, "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

fn form_with_choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = |kind: &str| {
        let names = [("value1", "First"), ("value2", "Second"), ("value3", "Third")];
        let titled = names.map(|(value, name)| json!({ "const": value, "title": format!("{name} {kind}") }));
        Value::from(titled.to_vec())
    };
    let names = ["Option One", "Option Two", "Option Three"];
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    } })
}

pub(super) fn prompts() -> Value {
    let argument = |name: &str| json!({ "name": name, "description": "An argument.", "required": true });
    let prompt = |name: &str, arguments: Value| json!({ "name": name, "description": "A fixture.", "arguments": arguments });
    json!([
        prompt("test_simple_prompt", json!([])),
        prompt("test_prompt_with_arguments", json!([argument("arg1"), argument("arg2")])),
        prompt("test_prompt_with_embedded_resource", json!([argument("resourceUri")])),
        prompt("test_prompt_with_image", json!([])),
        prompt("test_input_required_result_prompt", json!([])),
    ])
}

/// A prompt of one text.
pub(super) fn prompt_of(text: &str) -> Value {
    prompt(vec![json!({ "type": "text", "text": text })])
}

fn prompt(content: Vec<Value>) -> Value {
    let messages = content.into_iter().map(|content| json!({ "role": "user", "content": content }));
    json!({ "resultType": "complete", "messages": messages.collect::<Vec<_>>() })
}

/// Prompts that need no input.
pub(super) fn prompt_named(prompt: &str, argument: impl Fn(&str) -> String) -> Option<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let content = match prompt {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let content = "Embedded resource content for testing.";
            let resource =
                json!({ "uri": argument("resourceUri"), "mimeType": "text/plain", "text": content });
            vec![
                json!({ "type": "resource", "resource": resource }),
                text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PNG, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        _ => return None,
    };
    Some(self::prompt(content))
}

pub(super) fn resources() -> Value {
    let resource = |uri: &str, mime_type: &str| json!({ "uri": uri, "name": uri, "description": "A fixture.", "mimeType": mime_type });
    json!([
        resource("test://static-text", "text/plain"),
        resource("test://static-binary", "image/png"),
        resource("test://watched-resource", "text/plain"),
    ])
}

pub(super) const TEMPLATE: &str = "test://template/{id}/data";

pub(super) fn content_of(uri: &str) -> Option<Value> {
    let text = |mime_type: &str, text: &str| Some(json!({ "uri": uri, "mimeType": mime_type, "text": text }));
    match uri {
        "test://static-text" => text("text/plain", "This is the content of the static text resource."),
        "test://watched-resource" => text("text/plain", "Nothing changes this."),
        "test://static-binary" => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            text("application/json", &data.to_string())
        }
    }
}
