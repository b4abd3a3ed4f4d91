//! Contexts: calls to the agent.

use std::collections::HashMap;
use std::time::Duration;

use agent_protocol::v1::contexts_client::ContextsClient;
use agent_protocol::v1::{self, run_event};
use agent_protocol::{CONTEXTS_SINCE, MAX_RUN_RECORD_BYTES, TOOLS_SINCE};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use sandbox_api::ContextId;
use sandbox_api::context::{Language, RunStatus};
use sandbox_api::tool::ToolErrorType;
use serde_json::Value;

use super::command::{secrets_to_wire, within};
use super::link::LinkService;
use super::{AgentHandle, Error, MAX_ANSWER_BYTES, ORIGIN};
use sandboxd_model::command::Stream as OutputStream;
use sandboxd_model::context::{ContextSpec, ContextStatus, RecordKind, RunEnded, RunEvent, RunSpec};
use sandboxd_model::limits;
use sandboxd_model::tool::{Tool, ToolOutcome};

/// The events of a run, until the connection ends. Dropping them interrupts the run.
pub type RunEvents = std::pin::Pin<Box<dyn Stream<Item = Result<Reported, Error>> + Send>>;

/// What the agent reports on a run.
#[derive(Debug)]
pub enum Reported {
    /// An event of the run.
    Event(RunEvent),
    /// The code calls a tool. Its name and arguments are not checked yet.
    Call {
        /// Number of the call in its context, from 1.
        call: u64,
        /// Name of the tool.
        name: String,
        /// JSON, if the code is honest.
        arguments: Bytes,
    },
    /// A call was not answered in time.
    CallExpired {
        /// Number of the call.
        call: u64,
    },
}

impl AgentHandle {
    async fn contexts_client(&self) -> Result<ContextsClient<LinkService>, Error> {
        self.contexts_client_since(CONTEXTS_SINCE).await
    }

    async fn contexts_client_since(&self, generation: u32) -> Result<ContextsClient<LinkService>, Error> {
        let link = self.since(generation, limits::AGENT_ABSENCE).await?;
        Ok(ContextsClient::with_origin(link.service, ORIGIN.clone())
            .max_decoding_message_size(MAX_RUN_RECORD_BYTES + MAX_ANSWER_BYTES)
            .max_encoding_message_size(agent_protocol::MAX_MESSAGE_BYTES))
    }

    /// Opens a context. Returns when its interpreter has started.
    pub async fn open_context(&self, spec: &ContextSpec) -> Result<(), Error> {
        let request = v1::OpenContextRequest {
            context_id: spec.id.to_string(),
            language: language_to_wire(spec.language) as i32,
            cwd: spec.cwd.clone(),
            env: spec.env.clone(),
            secrets: secrets_to_wire(&spec.secrets),
            tools: spec.tools.iter().map(tool_to_wire).collect(),
        };
        let generation = if spec.tools.is_empty() { CONTEXTS_SINCE } else { TOOLS_SINCE };
        let mut client = self.contexts_client_since(generation).await?;
        within(limits::AGENT_CALL, client.open(request)).await.map(drop)
    }

    /// The tools of a context.
    pub async fn tools(&self, id: &ContextId) -> Result<Vec<Tool>, Error> {
        let mut client = self.contexts_client_since(TOOLS_SINCE).await?;
        let reply = within(limits::AGENT_CALL, client.list_tools(reference(id))).await?;
        // The agent is not trusted to keep the limit.
        reply.into_inner().tools.into_iter().take(limits::MAX_TOOLS).map(tool).collect()
    }

    /// Answers a call of a tool.
    pub async fn answer_tool_call(
        &self,
        context: &ContextId,
        call: u64,
        outcome: ToolOutcome,
    ) -> Result<(), Error> {
        let outcome = Some(outcome_to_wire(outcome));
        let request = v1::ToolAnswer { context_id: context.to_string(), call, outcome };
        let mut client = self.contexts_client_since(TOOLS_SINCE).await?;
        within(limits::AGENT_CALL, client.answer_tool_call(request)).await.map(drop)
    }

    /// All contexts, oldest first.
    pub async fn contexts(&self) -> Result<Vec<ContextStatus>, Error> {
        let mut client = self.contexts_client().await?;
        let reply = within(limits::AGENT_CALL, client.list(v1::ListContextsRequest {})).await?;
        // The agent is not trusted to keep its limit.
        reply.into_inner().contexts.into_iter().take(limits::MAX_CONTEXTS).map(status).collect()
    }

    /// A context.
    pub async fn inspect_context(&self, id: &ContextId) -> Result<ContextStatus, Error> {
        let mut client = self.contexts_client().await?;
        status(within(limits::AGENT_CALL, client.inspect(reference(id))).await?.into_inner())
    }

    /// Runs code.
    pub async fn run_code(&self, spec: &RunSpec) -> Result<RunEvents, Error> {
        let request = v1::RunCodeRequest {
            context_id: spec.context.to_string(),
            code: spec.code.clone(),
            timeout_ms: spec.timeout.as_millis() as u64,
        };
        let mut client = self.contexts_client().await?;
        let events = within(limits::AGENT_CALL, client.run(request)).await?.into_inner();
        Ok(events.map(|event| decode_event(event?)).boxed())
    }

    /// Interrupts the run of a context. Returns whether there is one.
    pub async fn interrupt_context(&self, id: &ContextId) -> Result<bool, Error> {
        let mut client = self.contexts_client().await?;
        let reply = within(limits::AGENT_CALL, client.interrupt(reference(id))).await?;
        Ok(reply.into_inner().interrupted)
    }

    /// Starts a new interpreter in place of the current one.
    pub async fn restart_context(&self, id: &ContextId) -> Result<(), Error> {
        let mut client = self.contexts_client().await?;
        within(limits::CLOSE_CONTEXT, client.restart(reference(id))).await.map(drop)
    }

    /// Ends a context and everything started from it, and removes it.
    pub async fn close_context(&self, id: &ContextId) -> Result<(), Error> {
        let mut client = self.contexts_client().await?;
        within(limits::CLOSE_CONTEXT, client.close(reference(id))).await.map(drop)
    }
}

fn reference(id: &ContextId) -> v1::ContextRef {
    v1::ContextRef { context_id: id.to_string() }
}

fn language_to_wire(language: Language) -> v1::Language {
    match language {
        Language::Python => v1::Language::Python,
        Language::Javascript => v1::Language::Javascript,
        Language::Typescript => v1::Language::Typescript,
        Language::Bash => v1::Language::Bash,
    }
}

fn language(wire: v1::Language) -> Option<Language> {
    match wire {
        v1::Language::Python => Some(Language::Python),
        v1::Language::Javascript => Some(Language::Javascript),
        v1::Language::Typescript => Some(Language::Typescript),
        v1::Language::Bash => Some(Language::Bash),
        v1::Language::Unspecified => None,
    }
}

fn tool_to_wire(tool: &Tool) -> v1::Tool {
    v1::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
        output_schema: tool.output_schema.as_ref().map(Value::to_string).unwrap_or_default(),
        timeout_ms: tool.timeout.as_millis() as u64,
    }
}

fn tool(wire: v1::Tool) -> Result<Tool, Error> {
    let schema = |text: &str, missing| serde_json::from_str(text).map_err(|_| Error::Malformed { missing });
    let has_output = !wire.output_schema.is_empty();
    Ok(Tool {
        input_schema: schema(&wire.input_schema, "input_schema")?,
        output_schema: has_output.then(|| schema(&wire.output_schema, "output_schema")).transpose()?,
        name: wire.name,
        description: wire.description,
        timeout: Duration::from_millis(wire.timeout_ms),
    })
}

fn outcome_to_wire(outcome: ToolOutcome) -> v1::tool_answer::Outcome {
    match outcome {
        ToolOutcome::Result(result) => v1::tool_answer::Outcome::Result(result),
        ToolOutcome::Error { kind, message } => {
            let kind = match kind {
                ToolErrorType::PermissionError => v1::ToolErrorType::Permission,
                ToolErrorType::Timeout => v1::ToolErrorType::Timeout,
                ToolErrorType::ValidationError => v1::ToolErrorType::Validation,
                ToolErrorType::InternalError => v1::ToolErrorType::Internal,
            };
            v1::tool_answer::Outcome::Error(v1::ToolError { r#type: kind as i32, message })
        }
    }
}

fn status(wire: v1::ContextStatus) -> Result<ContextStatus, Error> {
    let language = language(wire.language()).ok_or(Error::Malformed { missing: "language" })?;
    Ok(ContextStatus {
        id: wire.context_id.parse().map_err(|_| Error::Malformed { missing: "context_id" })?,
        language,
        cwd: wire.cwd,
        started_at_ms: wire.started_at_ms,
        is_running: wire.running,
        runs: wire.runs,
        tools: wire.tools.into_iter().take(limits::MAX_TOOLS).collect(),
        tool_calls: wire.tool_calls,
    })
}

fn decode_event(wire: v1::RunEvent) -> Result<Reported, Error> {
    Ok(Reported::Event(match wire.event.ok_or(Error::Malformed { missing: "event" })? {
        run_event::Event::ToolCall(v1::ToolCall { call, name, arguments }) => {
            return Ok(Reported::Call { call, name, arguments });
        }
        run_event::Event::ToolCallExpired(v1::ToolCallExpired { call }) => {
            return Ok(Reported::CallExpired { call });
        }
        run_event::Event::Started(started) => RunEvent::Started {
            at_ms: started.started_at_ms,
            run: started.run,
            language: language(started.language()),
        },
        run_event::Event::Output(output) => {
            let stream = match output.stream() {
                v1::Stream::Stdout => OutputStream::Stdout,
                v1::Stream::Stderr => OutputStream::Stderr,
                _ => return Err(Error::Malformed { missing: "stream" }),
            };
            RunEvent::Output { stream, data: output.data }
        }
        run_event::Event::Record(record) => {
            let kind = match record.kind() {
                v1::RecordKind::Result => RecordKind::Result,
                v1::RecordKind::Display => RecordKind::Display,
                v1::RecordKind::Error => RecordKind::Error,
                v1::RecordKind::Unspecified => return Err(Error::Malformed { missing: "kind" }),
            };
            let values: HashMap<_, _> =
                record.values.into_iter().map(|value| (value.name, value.data)).collect();
            RunEvent::Record { kind, values }
        }
        run_event::Event::Ended(wire) => RunEvent::Ended(ended(&wire)?),
    }))
}

fn ended(wire: &v1::RunEnded) -> Result<RunEnded, Error> {
    let status = match wire.status() {
        v1::RunStatus::Ok => RunStatus::Ok,
        v1::RunStatus::Error => RunStatus::Error,
        v1::RunStatus::Timeout => RunStatus::Timeout,
        v1::RunStatus::Interrupted => RunStatus::Interrupted,
        v1::RunStatus::Died => RunStatus::Died,
        v1::RunStatus::OutOfMemory => RunStatus::OutOfMemory,
        v1::RunStatus::Unspecified => return Err(Error::Malformed { missing: "status" }),
    };
    Ok(RunEnded {
        status,
        duration: Duration::from_millis(wire.duration_ms),
        exit_code: wire.exit_code,
        dropped_bytes: wire.dropped_bytes,
        restarted: wire.restarted,
        state_lost: wire.state_lost,
    })
}
