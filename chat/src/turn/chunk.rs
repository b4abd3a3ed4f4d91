//! What the page is told, in the AI SDK's UI message stream: the part of it that its majors 5, 6 and 7 understand alike.

use bash_tools::seed::SeedState;
use bash_tools::session::SessionState;
use serde::Serialize;
use serde_json::Value;

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Chunk {
    /// The answer begins.
    Start {
        /// Of the answer.
        message_id: String,
    },
    /// The model is asked.
    StartStep,
    /// A text begins.
    TextStart {
        /// Unique in the answer.
        id: String,
    },
    /// More of a text.
    TextDelta {
        /// Which.
        id: String,
        /// Some of it.
        delta: String,
    },
    /// A text is complete.
    TextEnd {
        /// Which.
        id: String,
    },
    /// The model begins to think aloud.
    ReasoningStart {
        /// Unique in the answer.
        id: String,
    },
    /// More of that.
    ReasoningDelta {
        /// Which.
        id: String,
        /// Some of it.
        delta: String,
    },
    /// The thought is complete.
    ReasoningEnd {
        /// Which.
        id: String,
        /// What the model's provider wants back with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// A tool is about to be called.
    ToolInputStart {
        /// Unique in the answer.
        tool_call_id: String,
        /// Its name.
        tool_name: String,
    },
    /// More of its input.
    ToolInputDelta {
        /// Which call.
        tool_call_id: String,
        /// Some JSON.
        input_text_delta: String,
    },
    /// The tool is called.
    ToolInputAvailable {
        /// Unique in the answer.
        tool_call_id: String,
        /// Its name.
        tool_name: String,
        /// What it is called with.
        input: Value,
        /// What the model's provider wants back with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// The tool cannot be called like that.
    ToolInputError {
        /// Unique in the answer.
        tool_call_id: String,
        /// Its name.
        tool_name: String,
        /// As the model wrote it.
        input: Value,
        /// Why.
        error_text: String,
    },
    /// What the tool answers.
    ToolOutputAvailable {
        /// Which call.
        tool_call_id: String,
        /// The whole answer so far.
        output: Value,
        /// Whether another one follows in its place.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        preliminary: bool,
    },
    /// The tool did not do it.
    ToolOutputError {
        /// Which call.
        tool_call_id: String,
        /// Why.
        error_text: String,
    },
    /// The model's answer and what it called for are complete.
    FinishStep,
    /// The chat's title is known. Not kept with the answer.
    #[serde(rename = "data-chat")]
    Chat {
        /// Which chat, and its title.
        data: ChatTitle,
        /// Always true.
        transient: bool,
    },
    /// How far the chat's sandbox is. Not kept with the answer.
    #[serde(rename = "data-sandbox")]
    Sandbox {
        /// How far.
        data: Opening,
        /// Always true.
        transient: bool,
    },
    /// The turn ended with a fault.
    Error {
        /// What, for the person.
        error_text: String,
    },
    /// The turn was ended from outside.
    Abort {
        /// By what.
        reason: String,
    },
    /// The turn has ended.
    Finish {
        /// How.
        finish_reason: FinishReason,
    },
}

/// A chat's title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatTitle {
    /// The chat.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// How far a sandbox is that a tool waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// `opening`, `seeding`, `ready` or `failed`.
    pub state: &'static str,
    /// A sentence for the person.
    pub text: String,
}

/// How a turn ended, in the AI SDK's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// It is as long as it may be.
    Length,
    /// The provider does not say the rest.
    ContentFilter,
    /// With a fault.
    Error,
    /// Otherwise.
    Other,
}

impl Chunk {
    /// A title that became known.
    pub fn title(id: &str, title: &str) -> Self {
        let data = ChatTitle { id: id.to_owned(), title: title.to_owned() };
        Self::Chat { data, transient: true }
    }

    /// How far a session is.
    pub fn opening(state: &SessionState) -> Self {
        let (state, text) = match state {
            SessionState::Closed | SessionState::Opening => ("opening", "Opening the sandbox".to_owned()),
            SessionState::Seeding { seed: SeedState::Running { step } } => {
                ("seeding", format!("Putting the first files in: {step}"))
            }
            SessionState::Seeding { .. } => ("seeding", "Putting the first files in".to_owned()),
            SessionState::Ready => ("ready", "The sandbox is ready".to_owned()),
            SessionState::Failed { reason } => ("failed", reason.clone()),
        };
        Self::Sandbox { data: Opening { state, text }, transient: true }
    }

    /// How much of it is kept with the answer, in bytes of text. The input of a call is counted as it comes.
    pub fn kept_bytes(&self) -> usize {
        let of = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.to_string().len());
        match self {
            Self::TextDelta { delta, .. } | Self::ReasoningDelta { delta, .. } => delta.len(),
            Self::ToolInputDelta { input_text_delta, .. } => input_text_delta.len(),
            Self::ReasoningEnd { provider_metadata, .. }
            | Self::ToolInputAvailable { provider_metadata, .. } => of(provider_metadata),
            Self::ToolOutputAvailable { output, preliminary: false, .. } => output.to_string().len(),
            Self::ToolOutputError { error_text, .. } => error_text.len(),
            _ => 0,
        }
    }

    /// As an event of the stream.
    pub fn to_event(&self) -> String {
        let json = serde_json::to_string(self).expect("chunks are maps of text, which JSON has");
        format!("data: {json}\n\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chunks_are_the_ai_sdk_s() {
        let json = |chunk: Chunk| serde_json::to_value(chunk).unwrap();
        assert_eq!(
            json(Chunk::Start { message_id: "m".into() }),
            json!({ "type": "start", "messageId": "m" })
        );
        assert_eq!(json(Chunk::StartStep), json!({ "type": "start-step" }));
        let output = |preliminary| Chunk::ToolOutputAvailable {
            tool_call_id: "c".into(),
            output: json!({ "exitCode": -1 }),
            preliminary,
        };
        assert_eq!(
            json(output(true)),
            json!({ "type": "tool-output-available", "toolCallId": "c", "output": { "exitCode": -1 }, "preliminary": true })
        );
        assert_eq!(json(output(false)).get("preliminary"), None);
        assert_eq!(
            json(Chunk::title("1", "t")),
            json!({ "type": "data-chat", "data": { "id": "1", "title": "t" }, "transient": true })
        );
        assert_eq!(
            json(Chunk::Finish { finish_reason: FinishReason::ContentFilter }),
            json!({ "type": "finish", "finishReason": "content-filter" })
        );
        assert_eq!(
            Chunk::Abort { reason: "a\nb".into() }.to_event(),
            "data: {\"type\":\"abort\",\"reason\":\"a\\nb\"}\n\n"
        );
    }
}
