//! Events for the page, in the AI SDK's UI message stream. Only the part that its versions 5, 6 and 7 share is used.

use bash_tools::seed::SeedState;
use bash_tools::session::SessionState;
use serde::Serialize;
use serde_json::Value;

/// An event of the stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Chunk {
    /// The answer starts.
    Start {
        /// Id of the answer.
        message_id: String,
    },
    /// A request to the model starts.
    StartStep,
    /// A text starts.
    TextStart {
        /// Unique in the answer.
        id: String,
    },
    /// More of a text.
    TextDelta {
        /// Id of the text.
        id: String,
        /// Part of it.
        delta: String,
    },
    /// A text is complete.
    TextEnd {
        /// Id of the text.
        id: String,
    },
    /// Reasoning starts.
    ReasoningStart {
        /// Unique in the answer.
        id: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// Id of the reasoning.
        id: String,
        /// Part of it.
        delta: String,
    },
    /// The reasoning is complete.
    ReasoningEnd {
        /// Id of the reasoning.
        id: String,
        /// Data that must be sent back to the model's provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// A tool call starts.
    ToolInputStart {
        /// Unique in the answer.
        tool_call_id: String,
        /// Name of the tool.
        tool_name: String,
    },
    /// More of its input.
    ToolInputDelta {
        /// Id of the call.
        tool_call_id: String,
        /// Part of the JSON.
        input_text_delta: String,
    },
    /// The tool call is complete.
    ToolInputAvailable {
        /// Id of the call.
        tool_call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Input of the call.
        input: Value,
        /// Data that must be sent back to the model's provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// The input of a tool call is invalid.
    ToolInputError {
        /// Id of the call.
        tool_call_id: String,
        /// Name of the tool.
        tool_name: String,
        /// Input as the model wrote it.
        input: Value,
        /// What is wrong with it.
        error_text: String,
    },
    /// Output of a tool.
    ToolOutputAvailable {
        /// Id of the call.
        tool_call_id: String,
        /// The whole output so far.
        output: Value,
        /// Whether another value follows and replaces this one.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        preliminary: bool,
    },
    /// The tool failed.
    ToolOutputError {
        /// Id of the call.
        tool_call_id: String,
        /// Error message.
        error_text: String,
    },
    /// The model's answer and its tool calls are complete.
    FinishStep,
    /// The chat got its title. Not stored with the answer.
    #[serde(rename = "data-chat")]
    Chat {
        /// The chat and its title.
        data: ChatTitle,
        /// Always true.
        transient: bool,
    },
    /// A person has stopped the answer.
    #[serde(rename = "data-stopped")]
    Stopped {
        /// The sentence to show.
        data: Note,
    },
    /// Progress of the chat's sandbox. Not stored with the answer.
    #[serde(rename = "data-sandbox")]
    Sandbox {
        /// The progress.
        data: Opening,
        /// Always true.
        transient: bool,
    },
    /// The turn ended with an error.
    Error {
        /// Message for the user.
        error_text: String,
    },
    /// The turn was cancelled.
    Abort {
        /// What cancelled it.
        reason: String,
    },
    /// The turn has ended.
    Finish {
        /// How it ended.
        finish_reason: FinishReason,
    },
}

/// A chat's title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatTitle {
    /// Id of the chat.
    pub id: String,
    /// The title.
    pub title: String,
}

/// A sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The sentence.
    pub text: String,
}

/// Progress of a sandbox that a tool waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// `opening`, `seeding`, `ready` or `failed`.
    pub state: &'static str,
    /// Sentence for the user.
    pub text: String,
}

/// How a turn ended, in the AI SDK's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The answer reached the maximum length.
    Length,
    /// The provider blocked the rest.
    ContentFilter,
    /// With an error.
    Error,
    /// For another reason.
    Other,
}

impl Chunk {
    /// Creates the event for a new title.
    pub fn title(id: &str, title: &str) -> Self {
        let data = ChatTitle { id: id.to_owned(), title: title.to_owned() };
        Self::Chat { data, transient: true }
    }

    /// Creates the event for an answer that a person has stopped.
    pub fn stopped() -> Self {
        Self::Stopped { data: Note { text: "This answer was stopped by hand.".into() } }
    }

    /// Creates the event for the state of a session.
    pub fn opening(state: &SessionState) -> Self {
        let (state, text) = match state {
            SessionState::Closed | SessionState::Opening => ("opening", "Opening the sandbox".to_owned()),
            SessionState::Seeding { seed: SeedState::Running { step } } => {
                ("seeding", format!("Adding the first files: {step}"))
            }
            SessionState::Seeding { .. } => ("seeding", "Adding the first files".to_owned()),
            SessionState::Ready => ("ready", "The sandbox is ready".to_owned()),
            SessionState::Failed { reason } => ("failed", reason.clone()),
        };
        Self::Sandbox { data: Opening { state, text }, transient: true }
    }

    /// Returns how many bytes of text are stored with the answer. The input of a call is counted while it arrives.
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

    /// Formats an event of the stream.
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
    fn chunks_have_the_ai_sdks_format() {
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
