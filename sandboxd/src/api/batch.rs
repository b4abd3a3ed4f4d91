//! Batch handler: converts between wire and model types.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sandbox_api::ErrorCode;
use sandbox_api::batch::{BatchEnded, BatchFault, BatchOutcome, BatchRan, BatchResult, RunBatch};
use sandbox_api::command::StartCommand;
use tracing::error;

use super::body::Json;
use super::caller::User;
use super::command::spec_of;
use super::error::{ApiError, Result, sentence};
use super::openapi::InSandbox;
use super::openapi::answers::*;
use super::params::{self, Path};
use crate::model::command::signal_name;
use crate::model::field::checked;
use crate::model::{CommandSpec, FieldError, Limits, Refusal, Tail, limits};
use crate::service::{self, BatchOrder, CommandOutput, CommandResult};

/// Run several commands.
///
/// Starts the commands in order, and none after a failure, unless `continueOnError` is set. One runs at a time, or up to
/// `parallel` if all of them are `readOnly`. Responds when the last one has ended, with the end of each command's
/// output. Closing the connection ends the running commands, unless they are `detached`, and starts no other.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands:batch", operation_id = "runBatch", tag = "commands",
    params(InSandbox), request_body = RunBatch, responses((status = 200, body = BatchRan), ByName, ByBody, BySandbox))]
pub(super) async fn run(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<RunBatch>,
) -> Result<Json<BatchRan>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let specs = specs_of(request.commands, access.limits())?;
    let order = BatchOrder {
        parallel: parallel_of(request.parallel, &specs)?,
        continue_on_error: request.continue_on_error.unwrap_or(false),
    };
    let id = access.record_commands(id, &specs).await?;
    let results = access.commands().run_batch(&id, specs, order).await?;
    Ok(Json(BatchRan { results: results.into_iter().map(to_wire).collect() }))
}

/// Checks all commands before any of them starts.
fn specs_of(commands: Vec<StartCommand>, limits: Limits) -> Result<Vec<CommandSpec>> {
    if commands.is_empty() || commands.len() > limits::MAX_BATCH_COMMANDS {
        let problem = format!("must be 1 to {}", limits::MAX_BATCH_COMMANDS);
        return Err(FieldError::new("commands", problem).into());
    }
    let mut ids = HashMap::new();
    let mut specs = Vec::with_capacity(commands.len());
    for (at, request) in commands.into_iter().enumerate() {
        let spec = spec_of(request, limits).map_err(|error| in_command(at, error))?;
        if spec.open_stdin {
            let field = format!("commands[{at}].openStdin");
            return Err(FieldError::new(field, "must not be set in a batch").into());
        }
        if spec.stages.is_some() {
            let field = format!("commands[{at}].capture");
            return Err(FieldError::new(field, "must not be set in a batch").into());
        }
        if let Some(earlier) = ids.insert(spec.id.clone(), at) {
            let field = format!("commands[{at}].commandId");
            return Err(FieldError::new(field, format!("is also the id of `commands[{earlier}]`")).into());
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// Checks how many commands may run at the same time. Commands that write could disturb each other.
fn parallel_of(requested: Option<u64>, specs: &[CommandSpec]) -> Result<usize> {
    let parallel = checked("parallel", requested.unwrap_or(1), 1..=limits::MAX_BATCH_PARALLEL)?;
    match specs.iter().position(|spec| !spec.read_only) {
        Some(at) if parallel > 1 => {
            let field = format!("commands[{at}].readOnly");
            Err(FieldError::new(field, "must be set, because `parallel` is more than 1").into())
        }
        _ => Ok(parallel as usize),
    }
}

/// Adds the position in the batch to an error of one command.
fn in_command(at: usize, error: ApiError) -> ApiError {
    match error {
        ApiError::Service(service::Error::Refused(Refusal::Field(FieldError { field, problem }))) => {
            FieldError::new(format!("commands[{at}].{field}"), problem).into()
        }
        ApiError::Service(service::Error::Refused(Refusal::TooLarge { what, limit })) => {
            let what = format!("`commands[{at}].{}`", what.trim_matches('`'));
            Refusal::TooLarge { what, limit }.into()
        }
        other => other,
    }
}

fn to_wire(CommandResult { command, outcome }: CommandResult) -> BatchResult {
    let outcome = match outcome {
        Ok(ran) => BatchOutcome::Ended(ended(&ran)),
        Err(error) => {
            let public = error.to_public();
            if public.code == ErrorCode::Internal {
                error!(%command, error = &error as &dyn std::error::Error, "a command of a batch failed");
            }
            BatchOutcome::NotStarted(BatchFault {
                error: sentence(&public),
                code: public.code,
                details: public.details,
            })
        }
    };
    BatchResult { command_id: command, outcome }
}

fn ended(CommandOutput { ended, stdout, stderr, trace }: &CommandOutput) -> BatchEnded {
    let (stdout_text, stdout_base64) = text_of(stdout);
    let (stderr_text, stderr_base64) = text_of(stderr);
    BatchEnded {
        stdout: stdout_text,
        stdout_base64,
        stderr: stderr_text,
        stderr_base64,
        trace: trace.as_ref().map(|trace| text_of(trace).0),
        exit_code: ended.exit_code,
        reason: ended.reason,
        signal: ended.signal.map(signal_name),
        duration_ms: ended.duration.as_millis() as u64,
        stdout_bytes: ended.stdout_bytes,
        stderr_bytes: ended.stderr_bytes,
        stdout_truncated_bytes: stdout.cut_bytes(),
        stderr_truncated_bytes: stderr.cut_bytes(),
        dropped_bytes: ended.dropped_bytes,
        limit_exceeded: ended.exceeded.map(Into::into),
        read_only_violation: ended.read_only_violation.clone().map(Into::into),
    }
}

/// Returns text, and base64 if the bytes are not valid UTF-8, as in a record.
fn text_of(tail: &Tail) -> (String, Option<String>) {
    match std::str::from_utf8(tail.kept()) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => {
            let lossy = String::from_utf8_lossy(tail.kept()).into_owned();
            (lossy, Some(BASE64_STANDARD.encode(tail.kept())))
        }
    }
}
