//! Converts the conversation to chat completions.
//!
//! Fields that a server may not know are omitted, because some servers reject them: `stream_options`,
//! `parallel_tool_calls`, and a limit of the answer (which has two names). `tool_choice` is `auto` by default.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::reader::REASONING_CONTENT;
use crate::model::calls::{sent_input, sent_name};
use crate::model::{Block, Request, Thinking, ToolCall, Turn, opaque};

/// Body of a request.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    /// Some servers reject an empty list.
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
    /// Builds the body of a request. `host` is the server's.
    pub(super) fn of(request: &'a Request, host: &str) -> Self {
        let system = (!request.system.is_empty()).then_some(Message::System { content: &request.system });
        let mut messages = Vec::from_iter(system);
        let last_user = request.turns.iter().rposition(|turn| matches!(turn, Turn::User(_)));
        for (at, turn) in request.turns.iter().enumerate() {
            match turn {
                Turn::User(text) => add_user(&mut messages, text),
                Turn::Model(blocks) => {
                    messages.extend(assistant(blocks, host, last_user.is_none_or(|last| at > last)));
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

/// Converts a user's message. Unanswered messages are joined with the next one, because some models require
/// alternating roles.
fn add_user<'a>(messages: &mut Vec<Message<'a>>, text: &'a str) {
    match messages.last_mut() {
        Some(Message::User { content }) => {
            let joined = content.to_mut();
            joined.push_str("\n\n");
            joined.push_str(text);
        }
        _ => messages.push(Message::User { content: text.into() }),
    }
}

/// Converts a model's turn. Returns `None` if it has only reasoning, which no server accepts.
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
    // DeepSeek requires its reasoning back while its tools run, and not later.
    let is_wanted = is_running && !tool_calls.is_empty() && !thoughts.is_empty();
    Some(Message::Assistant {
        content: (!content.is_empty()).then_some(content),
        reasoning_content: is_wanted.then_some(thoughts),
        tool_calls,
    })
}

/// Only servers that use this name for reasoning accept it back.
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
