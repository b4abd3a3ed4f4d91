//! The answer of a client to a call of a tool.

use sandbox_api::tool::{ToolAnswer, ToolCallStatus, ToolErrorType};
use sandbox_api::{ContextId, SandboxId};

use super::open_calls::OpenCall;
use super::{Contexts, Error};
use crate::agent;
use crate::model::tool::ToolOutcome;
use crate::model::{FieldError, Principal, Refusal, Resource, limits};
use crate::service::Authorized;

impl Contexts {
    /// Answers a call, once. Only the principal whose code calls may answer. A result that does not match the output schema
    /// is the answer too: the code gets an error.
    pub async fn answer(
        &self,
        id: &Authorized<SandboxId>,
        context: &ContextId,
        call: u64,
        by: &Principal,
        answer: ToolAnswer,
    ) -> Result<(), Error> {
        let in_use = self.lifecycle.in_use(id).await?;
        let key = ((**id).clone(), context.clone(), call);
        let Some(open) = self.open_calls.find(&key) else {
            let calls = in_use.agent().inspect_context(context).await?.tool_calls;
            return Err(absence(call, calls).into());
        };
        if !open.by.is_same(by) {
            return Err(Error::NotTheCaller);
        }
        // Before it is removed, so that it can be answered again.
        check_size(&answer)?;
        if self.open_calls.take(&key).is_none() {
            return Err(Refusal::ToolCallOver.into());
        }
        let (outcome, problem) = outcome_of(&open, answer);
        let status = status_of(&outcome);
        let answered = in_use.agent().answer_tool_call(context, call, outcome).await;
        let is_over = matches!(&answered, Err(agent::Error::Refused(Refusal::ToolCallOver)));
        // The agent decides which came first, the answer or the end of the time.
        let status = if is_over { ToolCallStatus::Timeout } else { status };
        self.history.note_call(in_use.sandbox().ledger(), &open.ended(&key), status);
        answered?;
        problem.map_or(Ok(()), |problem| Err(FieldError::new("result", problem).into()))
    }
}

/// Why there is no open call with this number. `calls` is the number of calls so far.
fn absence(call: u64, calls: u64) -> Refusal {
    if (1..=calls).contains(&call) { Refusal::ToolCallOver } else { Refusal::NotFound(Resource::ToolCall) }
}

fn status_of(outcome: &ToolOutcome) -> ToolCallStatus {
    match outcome {
        ToolOutcome::Result(_) => ToolCallStatus::Ok,
        ToolOutcome::Error { kind, .. } => (*kind).into(),
    }
}

fn check_size(answer: &ToolAnswer) -> Result<(), Error> {
    let (field, bytes, limit) = match answer {
        ToolAnswer::Result(result) => ("result", result.to_string().len(), limits::MAX_TOOL_VALUE_BYTES),
        ToolAnswer::Error(error) => ("error.message", error.message.len(), limits::MAX_TOOL_ERROR_BYTES),
    };
    let too_large = Refusal::TooLarge { what: format!("`{field}`"), limit: limit as u64 };
    if bytes > limit { Err(too_large.into()) } else { Ok(()) }
}

/// What the code gets, and what is wrong with the answer.
fn outcome_of(open: &OpenCall, answer: ToolAnswer) -> (ToolOutcome, Option<String>) {
    match answer {
        ToolAnswer::Error(error) => (ToolOutcome::Error { kind: error.kind, message: error.message }, None),
        ToolAnswer::Result(result) => match open.tool.result(&result) {
            Ok(()) => (ToolOutcome::Result(result.to_string().into()), None),
            Err(problem) => {
                let kind = ToolErrorType::ValidationError;
                (ToolOutcome::Error { kind, message: problem.clone() }, Some(problem))
            }
        },
    }
}
