//! Converts the conversation to Anthropic's messages: roles alternate, and tool results come first in the message
//! after their calls.
//!
//! Each step of a turn sends everything before it. Two cache points are therefore marked: the end of the part that
//! is the same in every chat, and the end of the conversation. Reading cached tokens costs a tenth of processing them
//! again.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::model::calls::{sent_input, sent_name};
use crate::model::{Block, Request, Turn, opaque};

/// Maximum number of output tokens, which Anthropic requires: the maximum of all its models since Claude 4.
const MAX_TOKENS: u32 = 32_000;

/// Body of a request.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Content<'a>>,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Content<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// Reasoning, exactly as it was received.
    #[serde(untagged)]
    Thought(&'a Value),
}

/// Marks the end of a part that the server may cache.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum CacheControl {
    /// For five minutes after each use.
    Ephemeral,
}

impl<'a> Body<'a> {
    /// Builds the body of a request. `host` is the server's.
    pub(super) fn of(request: &'a Request, host: &str) -> Self {
        let mut messages: Vec<Message<'a>> = Vec::new();
        for turn in &request.turns {
            let (role, content) = match turn {
                Turn::User(text) => (Role::User, Content::text(text).into_iter().collect()),
                Turn::Model(blocks) => {
                    (Role::Assistant, blocks.iter().filter_map(|block| Content::of(block, host)).collect())
                }
                Turn::Tools(results) => (Role::User, results.iter().map(Content::result).collect()),
            };
            add(&mut messages, role, content);
        }
        let tools = request.tools.iter().map(bash_tools::tools::Definition::to_anthropic).collect();
        let mut system: Vec<_> = Content::text(&request.system).into_iter().collect();
        let last = messages.last_mut().and_then(|message| message.content.last_mut());
        system.last_mut().into_iter().chain(last).for_each(Content::mark_cache_point);
        Self { model: &request.model, max_tokens: MAX_TOKENS, system, messages, stream: true, tools }
    }
}

fn add<'a>(messages: &mut Vec<Message<'a>>, role: Role, content: Vec<Content<'a>>) {
    match messages.last_mut() {
        _ if content.is_empty() => {}
        Some(last) if last.role == role => {
            last.content.extend(content);
            last.content.sort_by_key(|content| role == Role::User && !content.is_result());
        }
        _ => messages.push(Message { role, content }),
    }
}

impl<'a> Content<'a> {
    fn of(block: &'a Block, host: &str) -> Option<Self> {
        match block {
            Block::Text(text) => Self::text(text),
            Block::Thinking(thinking) => opaque::open(host, thinking.opaque.as_ref()).map(Self::Thought),
            Block::Call(call) => Some(Self::ToolUse {
                id: sent_name(&call.id),
                name: sent_name(&call.name),
                input: sent_input(&call.input),
            }),
        }
    }

    /// Drops an empty text, which the API rejects.
    fn text(text: &'a str) -> Option<Self> {
        (!text.trim().is_empty()).then_some(Self::Text { text, cache_control: None })
    }

    fn result(result: &'a crate::model::ToolResult) -> Self {
        Self::ToolResult {
            tool_use_id: sent_name(&result.call_id),
            content: &result.content,
            is_error: result.is_error,
            cache_control: None,
        }
    }

    fn mark_cache_point(&mut self) {
        match self {
            Self::Text { cache_control, .. } | Self::ToolResult { cache_control, .. } => {
                *cache_control = Some(CacheControl::Ephemeral);
            }
            // The last message of a conversation is the user's, or a result.
            Self::ToolUse { .. } | Self::Thought(_) => {}
        }
    }

    fn is_result(&self) -> bool {
        matches!(self, Self::ToolResult { .. })
    }
}
