//! A client's report of a response, as lines that can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use bash_tools::tools::{Definition, Tool};
use chat::model::{Anthropic, Block, Error, ModelClient, OpenAi, Piece, Request, Thinking, ToolCall, Turn};
use futures::StreamExt;
use serde_json::json;
use url::Url;

use crate::scripted_model::{Reply, SOON, ScriptedModel};

pub(crate) const KEY: &str = "sk-k3y-0f-the-test";

/// How long the servers of tests may be silent.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_millis(400);

/// All pieces up to the end, and the error if it ends with one.
pub(crate) struct Received {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) error: Option<Error>,
}

/// Sends a request and receives the response, which must end exactly once.
pub(crate) async fn send(client: &dyn ModelClient, request: Request) -> Received {
    let mut answer = client.stream(request);
    let mut received = Received { pieces: Vec::new(), error: None };
    let all = async {
        while let Some(piece) = answer.next().await {
            let is_over = received.error.is_some() || matches!(received.pieces.last(), Some(Piece::End(_)));
            assert!(!is_over, "{piece:?} comes after the end");
            match piece {
                Ok(piece) => received.pieces.push(piece),
                Err(error) => received.error = Some(error),
            }
        }
    };
    tokio::time::timeout(SOON, all).await.expect("the answer ends soon");
    assert!(
        received.error.is_some() || matches!(received.pieces.last(), Some(Piece::End(_))),
        "no end: {:?}",
        received.pieces.last()
    );
    received
}

/// The error that a response ends with.
pub(crate) async fn fault(client: &dyn ModelClient) -> Error {
    let received = send(client, question("hi")).await;
    received.error.unwrap_or_else(|| panic!("no error: {:?}", received.pieces))
}

/// The report of one response.
pub(crate) async fn openai(reply: Reply) -> Received {
    let server = ScriptedModel::start([reply]).await;
    send(&openai_at(&server.base), question("hi")).await
}

/// The report of one response.
pub(crate) async fn anthropic(reply: Reply) -> Received {
    let server = ScriptedModel::start([reply]).await;
    send(&anthropic_at(&server.base), question("hi")).await
}

pub(crate) fn openai_at(base: &Url) -> OpenAi {
    OpenAi::new(base.clone(), Some(KEY.into())).unwrap().with_timeouts(SILENCE_LIMIT)
}

pub(crate) fn anthropic_at(base: &Url) -> Anthropic {
    Anthropic::new(base.clone(), Some(KEY.into())).unwrap().with_timeouts(SILENCE_LIMIT)
}

/// Both clients, by name.
pub(crate) fn both_at(base: &Url) -> [(&'static str, Box<dyn ModelClient>); 2] {
    [("openai", Box::new(openai_at(base))), ("anthropic", Box::new(anthropic_at(base)))]
}

pub(crate) fn question(text: &str) -> Request {
    conversation(vec![Turn::User(text.to_owned())])
}

pub(crate) fn conversation(turns: Vec<Turn>) -> Request {
    let bash = Definition {
        tool: Tool::Bash,
        description: "Runs a command.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    };
    Request { model: "some-model".to_owned(), system: "Be brief.".to_owned(), turns, tools: [bash].into() }
}

impl Received {
    /// One line per piece. Consecutive texts of one kind are joined.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(String, String)> = Vec::new();
        for piece in &self.pieces {
            let (head, text) = match piece {
                Piece::Text(text) => ("text".to_owned(), text.clone()),
                Piece::Thinking(text) => ("thinking".to_owned(), text.clone()),
                Piece::Thought { opaque } => {
                    (format!("thought {}", content_of(opaque.as_ref())), String::new())
                }
                Piece::CallBegun { id, name } => (format!("begun {id} {name}"), String::new()),
                Piece::CallInput { id, delta } => (format!("input {id}"), delta.clone()),
                Piece::Called(call) => (called(call), String::new()),
                Piece::End(reason) => (format!("end {reason:?}"), String::new()),
            };
            match lines.last_mut() {
                Some((last, more)) if *last == head && !text.is_empty() => more.push_str(&text),
                _ => lines.push((head, text)),
            }
        }
        let mut lines: Vec<_> =
            lines.into_iter().map(|(head, text)| format!("{head} {text}").trim_end().to_owned()).collect();
        lines.extend(self.error.iter().map(|error| format!("error {error}")));
        lines
    }

    /// The model's turn, as the chat keeps it.
    pub(crate) fn turn(&self) -> Turn {
        let mut blocks = Vec::new();
        let mut thought = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => match blocks.last_mut() {
                    Some(Block::Text(so_far)) => so_far.push_str(text),
                    _ => blocks.push(Block::Text(text.clone())),
                },
                Piece::Thinking(text) => thought.push_str(text),
                Piece::Thought { opaque } => {
                    let text = std::mem::take(&mut thought);
                    blocks.push(Block::Thinking(Thinking { text, opaque: opaque.clone() }));
                }
                Piece::Called(call) => blocks.push(Block::Call(call.clone())),
                Piece::CallBegun { .. } | Piece::CallInput { .. } | Piece::End(_) => {}
            }
        }
        Turn::Model(blocks)
    }

    /// Its calls.
    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        let calls = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Called(call) => Some(call.clone()),
            _ => None,
        });
        calls.collect()
    }
}

fn called(call: &ToolCall) -> String {
    let ToolCall { id, name, input, opaque } = call;
    let input = match input {
        Ok(input) => input.to_string(),
        Err(text) => format!("no JSON: {text}"),
    };
    let opaque = opaque.as_ref().map(|opaque| format!(" with {}", content_of(Some(opaque))));
    format!("called {id} {name} {input}{}", opaque.unwrap_or_default())
}

/// The content without its origin, which contains the server's port. Objects are sorted by key, because serde_json's
/// order depends on the features of the build.
fn content_of(opaque: Option<&serde_json::Value>) -> String {
    let Some(opaque) = opaque else { return "not to be sent back".to_owned() };
    match &opaque["content"] {
        serde_json::Value::Object(fields) => {
            serde_json::to_string(&fields.iter().collect::<BTreeMap<_, _>>()).unwrap()
        }
        other => other.to_string(),
    }
}
