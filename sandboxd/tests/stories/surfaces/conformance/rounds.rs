//! Tools that ask the client for input before they return a result, in one round or several.

use rmcp::ErrorData;
use rmcp::model::{InputRequiredResult, InputResponses, RequestStateCodec, SealOptions};
use serde_json::{Value, json};

use super::fixtures::from;

/// What the client has sent, in this round and the ones before it.
pub(super) struct Received<'a> {
    pub(super) name: &'a str,
    pub(super) responses: InputResponses,
    pub(super) state: Option<String>,
    pub(super) capabilities: Value,
}

/// The outcome of a round.
pub(super) enum Round {
    Ask(InputRequiredResult),
    Done(String),
}

/// Signs the state that clients return.
fn codec() -> RequestStateCodec {
    RequestStateCodec::try_new([7; 32]).unwrap()
}

fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

fn sampling(text: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

impl Received<'_> {
    fn has(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.responses.get(*key).is_some_and(Value::is_object))
    }

    fn ask(&self, requests: Value, state: Option<&str>) -> Round {
        let options = SealOptions::new().associated_data(self.name.as_bytes());
        let state = state.map(|state| codec().seal_with(state.as_bytes(), &options));
        Round::Ask(InputRequiredResult::new(Some(from(requests)), state))
    }

    /// The state of the round before, if it is the one that this server has sent.
    fn opened(&self) -> Result<Option<String>, ErrorData> {
        let Some(state) = &self.state else { return Ok(None) };
        let opened = codec().open_with(state, self.name.as_bytes());
        let opened = opened.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(Some(String::from_utf8(opened).unwrap()))
    }

    /// Answers a call of a tool or a prompt that needs input. `None` for another name.
    pub(super) fn round(&self) -> Result<Option<Round>, ErrorData> {
        let state = self.opened()?;
        let state = state.as_deref();
        let name = form("What is your name?", "name", "string");
        Ok(Some(match self.name.trim_start_matches("test_input_required_result_") {
            "elicitation" | "test_streaming_elicitation" if self.has(&["user_name"]) => {
                let name = &self.responses["user_name"]["content"]["name"];
                Round::Done(format!("Hello, {}!", name.as_str().unwrap_or("stranger")))
            }
            "elicitation" | "test_streaming_elicitation" => self.ask(json!({ "user_name": name }), None),
            "sampling" if self.has(&["capital_question"]) => {
                Round::Done(self.responses["capital_question"]["content"].to_string())
            }
            "sampling" => {
                self.ask(json!({ "capital_question": sampling("What is the capital of France?") }), None)
            }
            "list_roots" if self.has(&["client_roots"]) => {
                Round::Done(self.responses["client_roots"]["roots"].to_string())
            }
            "list_roots" => self.ask(json!({ "client_roots": roots() }), None),
            "request_state" | "tampered_state" if state.is_some() && self.has(&["confirm"]) => {
                Round::Done("state-ok".into())
            }
            "request_state" | "tampered_state" => {
                self.ask(json!({ "confirm": form("Please confirm", "ok", "boolean") }), Some("asked"))
            }
            "multiple_inputs" if state.is_some() && self.has(&["user_name", "greeting", "client_roots"]) => {
                Round::Done("complete".into())
            }
            "multiple_inputs" => {
                let greeting = sampling("Generate a greeting");
                let requests = json!({ "user_name": name, "greeting": greeting, "client_roots": roots() });
                self.ask(requests, Some("asked"))
            }
            "multi_round" => self.step(state),
            "capabilities" => self.what_the_client_declares(),
            "prompt" if self.has(&["user_context"]) => {
                Round::Done(self.responses["user_context"]["content"].to_string())
            }
            "prompt" => {
                let question = form("What context should the prompt use?", "context", "string");
                self.ask(json!({ "user_context": question }), None)
            }
            _ => return Ok(None),
        }))
    }

    /// Three rounds, each with another state.
    fn step(&self, state: Option<&str>) -> Round {
        match state {
            Some("second") if self.has(&["step2"]) => Round::Done("complete".into()),
            Some("first") if self.has(&["step1"]) => {
                let question = form("Step 2: What is your favorite color?", "color", "string");
                self.ask(json!({ "step2": question }), Some("second"))
            }
            _ => {
                let question = form("Step 1: What is your name?", "name", "string");
                self.ask(json!({ "step1": question }), Some("first"))
            }
        }
    }

    fn what_the_client_declares(&self) -> Round {
        let mut requests = json!({});
        if self.capabilities["sampling"].is_object() {
            requests["capital_question"] = sampling("What is the capital of France?");
        }
        if self.capabilities["elicitation"].is_object() {
            requests["user_name"] = form("What is your name?", "name", "string");
        }
        self.ask(requests, None)
    }
}
