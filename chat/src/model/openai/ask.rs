//! The conversation as chat completions have it.
//!
//! Fields that a server may not know are left out, since some refuse them: `stream_options`, `parallel_tool_calls`, a
//! limit of the answer (which has two names). `tool_choice` is `auto` by itself.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::reader::REASONING_CONTENT;
use crate::model::calls::{sent_input, sent_name};
use crate::model::{Block, Request, Thinking, ToolCall, Turn, opaque};

/// Of a request.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    /// Some servers refuse an empty list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Cow<'a, str>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    /// JSON in a string.
    arguments: String,
}

impl<'a> Body<'a> {
    /// What a server is asked; `host` is its own.
    pub(super) fn of(request: &'a Request, host: &str) -> Self {
        let system = (!request.system.is_empty()).then_some(Message::System { content: &request.system });
        let mut messages = Vec::from_iter(system);
        let last_person = request.turns.iter().rposition(|turn| matches!(turn, Turn::Person(_)));
        for (at, turn) in request.turns.iter().enumerate() {
            match turn {
                Turn::Person(text) => add_person(&mut messages, text),
                Turn::Model(blocks) => {
                    messages.extend(assistant(blocks, host, last_person.is_none_or(|last| at > last)));
                }
                Turn::Tools(results) => {
                    messages.extend(results.iter().map(|result| Message::Tool {
                        tool_call_id: &result.call_id,
                        content: &result.content,
                    }))
                }
            }
        }
        let tools = request.tools.iter().map(bash_tools::tools::Definition::to_openai).collect();
        Self { model: &request.model, messages, stream: true, tools }
    }
}

/// What a person said. What was never answered is one message with what came after it: some models' templates want roles to alternate.
fn add_person<'a>(messages: &mut Vec<Message<'a>>, text: &'a str) {
    match messages.last_mut() {
        Some(Message::User { content }) => {
            let said = content.to_mut();
            said.push_str("\n\n");
            said.push_str(text);
        }
        _ => messages.push(Message::User { content: text.into() }),
    }
}

/// A model's turn; none where it has nothing but thoughts, which no server takes.
fn assistant<'a>(blocks: &'a [Block], host: &str, is_running: bool) -> Option<Message<'a>> {
    let mut content = String::new();
    let mut thoughts = String::new();
    let mut tool_calls = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) => content.push_str(text),
            Block::Thinking(thinking) => thoughts.push_str(sent_thought(thinking, host)),
            Block::Call(call) => tool_calls.push(Call::of(call, host)),
        }
    }
    if content.is_empty() && tool_calls.is_empty() {
        return None;
    }
    // DeepSeek wants back what it thought while its tools are at work, and not later.
    let is_wanted = is_running && !tool_calls.is_empty() && !thoughts.is_empty();
    Some(Message::Assistant {
        content: (!content.is_empty()).then_some(content),
        reasoning_content: is_wanted.then_some(thoughts),
        tool_calls,
    })
}

/// Only who calls its thoughts by this name takes them back under it.
fn sent_thought<'a>(thinking: &'a Thinking, host: &str) -> &'a str {
    let name = opaque::open(host, thinking.opaque.as_ref());
    if name.is_some_and(|name| name == REASONING_CONTENT) { &thinking.text } else { "" }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall, host: &str) -> Self {
        let arguments = sent_input(&call.input).to_string();
        Self {
            id: &call.id,
            r#type: "function",
            function: Function { name: sent_name(&call.name), arguments },
            extra_content: opaque::open(host, call.opaque.as_ref()),
        }
    }
}
