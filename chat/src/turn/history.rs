//! Converts the chat from the page's format to a model's.

use bash_tools::tools::{PythonOutput, Tool};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Block, Thinking, ToolCall, ToolResult, Turn};

/// Maximum number of characters of a chat for a model. The beginning of a longer chat is omitted, by whole messages.
const MAX_CHARS: usize = 400_000;

/// A message in the AI SDK's format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Unique in the chat.
    pub id: String,
    /// Author of the message.
    pub role: Role,
    /// Contents, in the AI SDK's format.
    pub parts: Vec<Value>,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The system. Messages of a page with this role are ignored.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Message {
    /// Creates a message of the user.
    pub fn of_user(id: String, text: &str) -> Self {
        Self { id, role: Role::User, parts: vec![serde_json::json!({ "type": "text", "text": text })] }
    }

    /// Returns its texts, one per line.
    pub fn text(&self) -> String {
        let texts =
            self.parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    fn chars(&self) -> usize {
        self.parts.iter().map(chars_of).sum()
    }
}

/// Number of characters of a part for a model, which gets no images.
fn chars_of(part: &Value) -> usize {
    let whole = part.to_string().len();
    match part["type"].as_str().and_then(|kind| kind.strip_prefix("tool-")) {
        Some(name) => {
            let output = &part["output"];
            (whole + for_model(name, output).len()).saturating_sub(output.to_string().len())
        }
        None => whole,
    }
}

/// Returns what a model gets of the result of a tool. Images and HTML of `python` are for the user.
pub(super) fn for_model(tool: &str, output: &Value) -> String {
    if tool == Tool::Python.name()
        && let Ok(output) = PythonOutput::deserialize(output)
        && let Ok(text) = serde_json::to_string(&output.for_model())
    {
        return text;
    }
    output.to_string()
}

/// Converts the chat for a model of `provider`. Data for other providers is omitted.
pub fn turns_of(messages: &[Message], provider: &str) -> Vec<Turn> {
    let mut chars = 0;
    let kept = messages.iter().rev().take_while(|message| {
        chars += message.chars();
        chars <= MAX_CHARS
    });
    // The last message is the question, which is always included.
    let first = messages.len() - kept.count().max(1).min(messages.len());
    let mut turns = Vec::new();
    for message in &messages[first..] {
        match message.role {
            Role::System => {}
            Role::User => turns.push(Turn::User(message.text())),
            // Skips an answer without its question, which was omitted.
            Role::Assistant if turns.is_empty() => {}
            Role::Assistant => add_answer(&mut turns, &message.parts, provider),
        }
    }
    turns
}

/// Adds an answer, with one turn for each step and one for the results of its calls.
pub(super) fn add_answer(turns: &mut Vec<Turn>, parts: &[Value], provider: &str) {
    for step in parts.split(|part| part["type"] == "step-start") {
        let blocks: Vec<Block> = step.iter().filter_map(|part| block(part, provider)).collect();
        if blocks.is_empty() {
            continue;
        }
        let results: Vec<ToolResult> = step.iter().filter_map(result).collect();
        turns.push(Turn::Model(blocks));
        if !results.is_empty() {
            turns.push(Turn::Tools(results));
        }
    }
}

fn block(part: &Value, provider: &str) -> Option<Block> {
    let part = part.as_object()?;
    let text = || part.get("text")?.as_str().map(str::to_owned);
    match part.get("type")?.as_str()? {
        "text" => text().filter(|text| !text.is_empty()).map(Block::Text),
        "reasoning" => {
            let opaque = opaque(part, "providerMetadata", provider);
            Some(Block::Thinking(Thinking { text: text()?, opaque }))
        }
        kind => {
            let name = kind.strip_prefix("tool-")?.to_owned();
            let id = part.get("toolCallId")?.as_str()?.to_owned();
            let input = part.get("input").cloned().unwrap_or_default();
            let opaque = opaque(part, "callProviderMetadata", provider);
            let input = match input {
                Value::Object(_) => Ok(input),
                Value::String(text) => Err(text),
                other => Err(other.to_string()),
            };
            Some(Block::Call(ToolCall { id, name, input, opaque }))
        }
    }
}

fn result(part: &Value) -> Option<ToolResult> {
    let name = part["type"].as_str()?.strip_prefix("tool-")?;
    let call_id = part["toolCallId"].as_str()?.to_owned();
    Some(match part["state"].as_str() {
        Some("output-available") => {
            ToolResult { call_id, content: for_model(name, &part["output"]), is_error: false }
        }
        _ => {
            let text = part["errorText"].as_str().unwrap_or("The tool did not respond.");
            ToolResult { call_id, content: text.to_owned(), is_error: true }
        }
    })
}

fn opaque(part: &Map<String, Value>, key: &str, provider: &str) -> Option<Value> {
    part.get(key)?.get(provider).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(parts: Value) -> Message {
        let Value::Array(parts) = parts else { panic!() };
        Message { id: "a".into(), role: Role::Assistant, parts }
    }

    #[test]
    fn history_has_one_turn_per_step() {
        let messages = [
            Message::of_user("1".into(), "list"),
            answer(json!([
                { "type": "step-start" },
                { "type": "reasoning", "text": "hm", "providerMetadata": { "anthropic": { "signature": "s" } } },
                { "type": "text", "text": "Let me look." },
                { "type": "tool-bash", "toolCallId": "c1", "state": "output-available", "input": { "command": "ls" }, "output": { "stdout": "a" } },
                { "type": "tool-bash", "toolCallId": "c2", "state": "output-error", "input": "{", "errorText": "no" },
                { "type": "step-start" },
                { "type": "text", "text": "There is a." },
                { "type": "source-url", "url": "x" },
            ])),
            Message::of_user("2".into(), "thanks"),
        ];
        let turns = turns_of(&messages, "anthropic");
        let [Turn::User(first), Turn::Model(step), Turn::Tools(results), Turn::Model(last), Turn::User(_)] =
            &turns[..]
        else {
            panic!("{turns:?}")
        };
        assert_eq!(first, "list");
        assert_eq!(step.len(), 4);
        assert!(
            matches!(&step[0], Block::Thinking(Thinking { opaque: Some(opaque), .. }) if opaque["signature"] == "s")
        );
        assert!(matches!(&step[3], Block::Call(ToolCall { input: Err(text), .. }) if text == "{"));
        assert_eq!(results.len(), 2);
        assert_eq!((results[0].content.as_str(), results[0].is_error), (r#"{"stdout":"a"}"#, false));
        assert_eq!((results[1].content.as_str(), results[1].is_error), ("no", true));
        assert_eq!(last, &[Block::Text("There is a.".into())]);

        let other = turns_of(&messages, "openai");
        let Turn::Model(step) = &other[1] else { panic!() };
        assert!(matches!(&step[0], Block::Thinking(Thinking { opaque: None, .. })));
    }

    #[test]
    fn a_long_chat_is_cut_at_the_start() {
        let long = "x".repeat(MAX_CHARS / 2);
        let mut messages = Vec::new();
        for turn in 0..4 {
            messages.push(Message::of_user(format!("q{turn}"), &format!("{turn}{long}")));
            messages.push(answer(json!([{ "type": "text", "text": "ok" }])));
        }
        messages.push(Message::of_user("last".into(), "now"));
        let turns = turns_of(&messages, "openai");
        assert!(matches!(&turns[0], Turn::User(text) if text.starts_with('3')), "{}", turns.len());
        assert_eq!(turns.len(), 3);
        let huge = [Message::of_user("1".into(), &"x".repeat(MAX_CHARS + 1))];
        assert_eq!(turns_of(&huge, "openai").len(), 1);
        assert_eq!(turns_of(&[], "openai"), []);
    }

    #[test]
    fn a_model_gets_no_images_and_they_do_not_count() {
        let png = "x".repeat(MAX_CHARS);
        let output = json!({ "status": "ok", "stdout": "hi", "stderr": "", "displays": [{ "text": "<Figure>", "png": png }] });
        let part = json!({ "type": "tool-python", "toolCallId": "c1", "state": "output-available", "input": { "code": "1" }, "output": output });
        let messages = [
            Message::of_user("1".into(), "draw"),
            answer(json!([part])),
            Message::of_user("2".into(), "thanks"),
        ];
        let turns = turns_of(&messages, "openai");
        let [Turn::User(_), Turn::Model(_), Turn::Tools(results), Turn::User(_)] = &turns[..] else {
            panic!("{}", turns.len())
        };
        let content: Value = serde_json::from_str(&results[0].content).unwrap();
        assert_eq!(content["stdout"], "hi");
        assert_eq!(
            content["displays"],
            json!([{ "text": "<Figure>", "note": "the user sees this as an image" }])
        );
        assert_eq!(for_model("python", &json!("odd")), "\"odd\"");
    }

    #[test]
    fn system_messages_of_a_page_are_dropped() {
        let system = Message { role: Role::System, ..Message::of_user("s".into(), "obey") };
        assert_eq!(turns_of(&[system], "openai"), []);
    }
}
