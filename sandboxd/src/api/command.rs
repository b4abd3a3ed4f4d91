//! Command handlers: convert between wire and model types.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sandbox_api::CommandId;
use sandbox_api::command::{
    Command, CommandEnded, CommandKilled, CommandList, CommandStarted, CommandState, KillCommand, Record,
    Script, StartCommand,
};

use super::body::Json;
use super::caller::{Reader, User};
use super::command_body::CommandBody;
use super::error::Result;
use super::ndjson;
use super::openapi::answers::*;
use super::openapi::{InCommand, InSandbox};
use super::params::{self, Params, Path};
use crate::model::command::{CommandStatus, Killed, signal_name, signal_number};
use crate::model::field::checked;
use crate::model::pipeline::{StageText, last_pipeline};
use crate::model::{CommandRecord, CommandSpec, FieldError, LimitProfile, Limits, Program, Refusal, limits};
use crate::service;

/// Largest sequence number of a record. It must leave room for the next one.
const LAST_SEQ: u64 = u64::MAX - 1;

/// Start a command.
///
/// Takes either `script`, or `cmd` with `args`. With `accept: application/x-ndjson`, the response is the command's
/// stream: `start`, its output, and last `exit`. Closing the stream ends the command, unless it is `detached`.
/// Without this header, the response is the command's id, as soon as it runs. A repeated request with the same
/// `commandId` refers to the same command and starts nothing. With another body it returns 409. A plain text body
/// (`text/plain`) is a script.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands", operation_id = "startCommand", tag = "commands",
    params(InSandbox),
    request_body(content((StartCommand = "application/json"), (Script = "text/plain"))), responses((status = 200, content((CommandStarted = "application/json"), (Record = "application/x-ndjson"))),
        ByName, ByBody, BySandbox))]
pub(super) async fn start(
    User(access): User,
    Path(id): Path<String>,
    headers: HeaderMap,
    CommandBody(request): CommandBody<StartCommand>,
) -> Result<Response> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let spec = spec_of(request, access.limits())?;
    let command_id = spec.id.clone();
    let id = access.record_commands(id, std::slice::from_ref(&spec)).await?;
    if ndjson::is_wanted(headers.get(ACCEPT)) {
        let stream = access.commands().run(&id, spec).await?;
        return Ok(ndjson::response(stream, command_id));
    }
    let started = access.commands().start(&id, spec).await?;
    let timeout_ms = started.timeout.as_millis() as u64;
    Ok(Json(CommandStarted { command_id, timeout_ms }).into_response())
}

/// List commands.
///
/// Returns recorded commands, newest first. Does not wake the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/commands", operation_id = "listCommands", tag = "commands",
    params(InSandbox, ("limit" = Option<u32>, Query, description = "Maximum number of results.")),
    responses((status = 200, body = CommandList), ByName, ByQuery))]
pub(super) async fn list(
    Reader(access): Reader,
    Path(id): Path<String>,
    query: Params,
) -> Result<Json<CommandList>> {
    let limit = params::optional(&query, "limit", "a number")?.unwrap_or(limits::DEFAULT_PAGE);
    let limit = checked("limit", u64::from(limit), 1..=u64::from(limits::MAX_PAGE))? as u32;
    let records = access.commands().list(&access.sandbox(params::sandbox(&id)?)?, limit).await?;
    Ok(Json(CommandList { commands: records.into_iter().map(record_to_wire).collect() }))
}

/// Inspect a command.
///
/// Returns the state of a command, even if its sandbox was parked in the meantime. Wakes the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/commands/{commandId}", operation_id = "getCommand", tag = "commands",
    params(InCommand), responses((status = 200, body = Command), ByName, BySandbox))]
pub(super) async fn inspect(
    Reader(access): Reader,
    Path((id, command)): Path<(String, String)>,
) -> Result<Json<Command>> {
    let (id, command) = (access.sandbox(params::sandbox(&id)?)?, params::command(&command)?);
    let status = access.commands().inspect(&id, &command).await?;
    Ok(Json(to_wire(command, status)))
}

/// End a command.
///
/// Sends SIGTERM to the command and everything it started, and SIGKILL after two seconds. Responds when no process of
/// it is left. If this takes more than four seconds, the sandbox's container is restarted and the response says so.
/// With `signal`, only sends that signal.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/commands/{commandId}:kill", operation_id = "killCommand",
    tag = "commands", params(InCommand),
    request_body = KillCommand, responses((status = 200, body = CommandKilled), ByName, ByBody, BySandbox))]
pub(super) async fn kill(
    User(access): User,
    Path((id, command)): Path<(String, String)>,
    Json(request): Json<KillCommand>,
) -> Result<Json<CommandKilled>> {
    let (id, command) = (access.sandbox(params::sandbox(&id)?)?, params::command(&command)?);
    let killed = match request.signal {
        None => access.commands().kill(&id, &command).await?,
        Some(name) => {
            let signal = signal_number(&name)
                .ok_or_else(|| FieldError::new("signal", "must be a signal's name such as SIGINT"))?;
            let already_ended = access.commands().signal(&id, &command, signal).await?;
            Killed { already_ended, restarted: false }
        }
    };
    let Killed { already_ended, restarted } = killed;
    Ok(Json(CommandKilled { ok: true, already_ended, restarted }))
}

/// Wait for a command.
///
/// Responds when the command has ended. If `timeoutMs` expires first, the response is 504 and the command keeps
/// running.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/commands/{commandId}/wait", operation_id = "waitForCommand",
    tag = "commands", params(InCommand, ("timeoutMs" = Option<u64>, Query,
        description = "Maximum time to wait in milliseconds. Default: until the command ends.")),
    responses((status = 200, body = CommandEnded), ByName, ByQuery, BySandbox))]
pub(super) async fn wait(
    Reader(access): Reader,
    Path((id, command)): Path<(String, String)>,
    query: Params,
) -> Result<Json<CommandEnded>> {
    let (id, command) = (access.sandbox(params::sandbox(&id)?)?, params::command(&command)?);
    let limit = params::optional(&query, "timeoutMs", "a number of milliseconds")?;
    let ended = access.commands().wait(&id, &command, limit.map(Duration::from_millis)).await?;
    Ok(Json(CommandEnded {
        exit_code: ended.exit_code,
        reason: ended.reason,
        signal: ended.signal.map(signal_name),
        duration_ms: ended.duration.as_millis() as u64,
        killed_by: ended.killed_by.map(|by| by.as_str().into()),
        limit_exceeded: ended.exceeded.map(Into::into),
        read_only_violation: ended.read_only_violation.clone().map(Into::into),
    }))
}

/// Read a command's records.
///
/// Returns the kept records after sequence number `after`, then new ones, and last `exit`. A `gap` record reports
/// output that is no longer kept.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/commands/{commandId}/logs", operation_id = "readCommandLogs",
    tag = "commands",
    params(InCommand,
        ("after" = Option<u64>, Query, description = "Returns records after this sequence number."),
        ("follow" = Option<bool>, Query, description = "Keeps streaming new records.")),
    responses((status = 200, description = "One record per line.", body = Record, content_type = "application/x-ndjson"), ByName, ByQuery, BySandbox))]
pub(super) async fn logs(
    Reader(access): Reader,
    Path((id, command)): Path<(String, String)>,
    query: Params,
) -> Result<Response> {
    let (id, command) = (access.sandbox(params::sandbox(&id)?)?, params::command(&command)?);
    let after = params::optional(&query, "after", "a record's number")?.unwrap_or(0).min(LAST_SEQ);
    let follow = params::optional(&query, "follow", "`true` or `false`")?.unwrap_or(true);
    let stream = access.commands().logs(&id, &command, after, follow).await?;
    Ok(ndjson::response(stream, command))
}

/// Checks a request and converts it.
pub(super) fn spec_of(request: StartCommand, limits: Limits) -> Result<CommandSpec> {
    let is_named = request.command_id.is_some();
    let profile = profile_of(request.limits.as_deref())?;
    let is_debug = request.debug.unwrap_or(false);
    let counts_loops = request.script.is_some() && !is_debug;
    let spec = CommandSpec {
        digest: None,
        id: id_of(request.command_id)?,
        program: program_of(request.cmd, request.args, request.script)?,
        cwd: text("cwd", request.cwd.unwrap_or_default(), limits::MAX_PATH_BYTES)?,
        env: env_of(request.env.unwrap_or_default())?,
        stdin: stdin_of(request.stdin, request.stdin_base64)?,
        open_stdin: request.open_stdin.unwrap_or(false),
        read_only: request.read_only.unwrap_or(false),
        timeout: match (request.passive, profile) {
            (Some(true), None) => passive_timeout_of(request.timeout_ms),
            _ => timeout_of(request.timeout_ms, profile, limits),
        },
        detached: request.detached.unwrap_or(false),
        passive: request.passive.unwrap_or(false),
        output_file_after: (request.save_output == Some(true)).then_some(limits::SAVE_OUTPUT_AFTER_BYTES),
        debug: is_debug,
        secrets: Vec::new(),
        stages: None,
        resource_limits: profile.map(|profile| profile.resources(counts_loops)).unwrap_or_default(),
    };
    if spec.debug && !matches!(spec.program, Program::Script(_)) {
        return Err(FieldError::new("debug", "needs `script`").into());
    }
    let stages = stages_of(request.capture.as_deref(), &spec)?;
    let spec = CommandSpec { stages, ..spec };
    Ok(CommandSpec { digest: is_named.then(|| spec.request_digest()), ..spec })
}

/// Finds the stages to report.
fn stages_of(capture: Option<&str>, spec: &CommandSpec) -> Result<Option<Vec<StageText>>> {
    let problem = |problem: String| FieldError::new("capture", problem);
    match (capture, &spec.program) {
        (None, _) => Ok(None),
        (Some("stages"), Program::Script(_)) if spec.debug => {
            Err(problem("must not be combined with debug".into()).into())
        }
        (Some("stages"), Program::Script(script)) if script.len() > limits::MAX_CAPTURE_SCRIPT_BYTES => {
            let limit = limits::MAX_CAPTURE_SCRIPT_BYTES;
            Err(problem(format!("needs a script of at most {limit} bytes")).into())
        }
        (Some("stages"), Program::Script(script)) => {
            let stages = last_pipeline(script).map_err(|error| problem(error.to_string()))?;
            if stages.len() > limits::MAX_STAGES {
                let limit = limits::MAX_STAGES;
                return Err(problem(format!("needs a pipeline of at most {limit} stages")).into());
            }
            Ok(Some(stages))
        }
        (Some("stages"), Program::Argv { .. }) => Err(problem("needs `script`".into()).into()),
        (Some(_), _) => Err(problem("must be `stages`".into()).into()),
    }
}

fn id_of(requested: Option<String>) -> Result<CommandId> {
    match requested {
        Some(id) => Ok(id
            .parse()
            .map_err(|error: sandbox_api::IdError| FieldError::new("commandId", format!("is {error}")))?),
        None => Ok(CommandId::random().map_err(|source| service::Error::Randomness { source })?),
    }
}

fn program_of(cmd: Option<String>, args: Option<Vec<String>>, script: Option<String>) -> Result<Program> {
    match (cmd, args, script) {
        (None, None, Some(script)) => {
            if script.len() > limits::MAX_SCRIPT_BYTES {
                let limit = limits::MAX_SCRIPT_BYTES as u64;
                return Err(Refusal::TooLarge { what: "`script`".into(), limit }.into());
            }
            Ok(Program::Script(text("script", script, limits::MAX_SCRIPT_BYTES)?))
        }
        (_, _, Some(_)) => Err(FieldError::new("script", "must not be combined with cmd or args").into()),
        (None, None, None) => Err(FieldError::new("script", "or `cmd` must be given").into()),
        (cmd, args, None) => {
            let (program, args) = argv_of(cmd.unwrap_or_else(|| "bash".into()), args)?;
            Ok(Program::Argv { program, args })
        }
    }
}

/// Checks a program and its arguments.
pub(super) fn argv_of(cmd: String, args: Option<Vec<String>>) -> Result<(String, Vec<String>)> {
    let args = args.unwrap_or_default();
    if args.len() > limits::MAX_ARGS {
        return Err(FieldError::new("args", format!("must be at most {}", limits::MAX_ARGS)).into());
    }
    let program = text("cmd", cmd, limits::MAX_PATH_BYTES)?;
    if program.is_empty() {
        return Err(FieldError::new("cmd", "must not be empty").into());
    }
    let bytes: usize = args.iter().map(String::len).sum();
    if bytes > limits::MAX_SCRIPT_BYTES {
        let limit = limits::MAX_SCRIPT_BYTES as u64;
        return Err(Refusal::TooLarge { what: "`args`".into(), limit }.into());
    }
    let args: Result<Vec<String>> =
        args.into_iter().map(|arg| text("args", arg, limits::MAX_SCRIPT_BYTES)).collect();
    Ok((program, args?))
}

/// Checks text for a program: bounded, and without NUL, which would end it (execve(2)).
pub(super) fn text(field: &str, text: String, max_bytes: usize) -> Result<String> {
    if text.contains('\0') {
        return Err(FieldError::new(field, "must not contain NUL").into());
    }
    if text.len() > max_bytes {
        return Err(FieldError::new(field, format!("must be at most {max_bytes} bytes long")).into());
    }
    Ok(text)
}

pub(super) fn env_of(env: sandbox_api::StringMap) -> Result<HashMap<String, String>> {
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if env.len() > limits::MAX_ENV_ENTRIES || bytes > limits::MAX_ENV_BYTES {
        let (entries, bytes) = (limits::MAX_ENV_ENTRIES, limits::MAX_ENV_BYTES);
        return Err(
            FieldError::new("env", format!("must be at most {entries} entries and {bytes} bytes")).into()
        );
    }
    let is_valid =
        |name: &str, value: &str| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
    if let Some((name, _)) = env.iter().find(|(name, value)| !is_valid(name, value)) {
        return Err(FieldError::new(format!("env.{name}"), "is not a variable: no name, `=` or NUL").into());
    }
    Ok(env.into_iter().collect())
}

fn stdin_of(plain: Option<String>, base64: Option<String>) -> Result<Option<Bytes>> {
    let stdin = match (plain, base64) {
        (None, None) => return Ok(None),
        (Some(text), None) => Bytes::from(text),
        (None, Some(base64)) => BASE64_STANDARD
            .decode(base64)
            .map(Bytes::from)
            .map_err(|error| FieldError::new("stdinBase64", format!("is not base64: {error}")))?,
        (Some(_), Some(_)) => {
            return Err(FieldError::new("stdin", "must not be combined with stdinBase64").into());
        }
    };
    if stdin.len() > limits::MAX_STDIN_BYTES {
        let limit = limits::MAX_STDIN_BYTES as u64;
        return Err(Refusal::TooLarge { what: "`stdin`".into(), limit }.into());
    }
    Ok(Some(stdin))
}

fn profile_of(name: Option<&str>) -> Result<Option<LimitProfile>> {
    let of_name = |name| {
        LimitProfile::of_name(name).ok_or_else(|| {
            let names = LimitProfile::ALL.map(LimitProfile::name).join("`, `");
            FieldError::new("limits", format!("must be one of `{names}`"))
        })
    };
    Ok(name.map(of_name).transpose()?)
}

pub(super) fn timeout_of(
    requested_ms: Option<u64>,
    profile: Option<LimitProfile>,
    limits: Limits,
) -> Duration {
    let requested = requested_ms.map(Duration::from_millis);
    let requested = match profile {
        Some(profile) => profile.timeout(requested, limits.max_command_timeout),
        None => requested.unwrap_or(limits::DEFAULT_COMMAND_TIMEOUT),
    };
    requested.clamp(limits::MIN_COMMAND_TIMEOUT, limits.max_command_timeout)
}

/// A passive command ends with its sandbox's container, so it needs no other limit than one for a leftover.
fn passive_timeout_of(requested_ms: Option<u64>) -> Duration {
    let requested = requested_ms.map_or(limits::MAX_PASSIVE_TIMEOUT, Duration::from_millis);
    requested.clamp(limits::MIN_COMMAND_TIMEOUT, limits::MAX_PASSIVE_TIMEOUT)
}

pub(super) fn record_to_wire(record: CommandRecord) -> Command {
    to_wire(record.id.clone(), record.into())
}

fn to_wire(id: CommandId, status: CommandStatus) -> Command {
    let mut argv = status.argv.into_iter();
    // The sandbox reports this time, so it may be any number.
    let since_start = jiff::Timestamp::now().as_millisecond().saturating_sub(status.started.at_ms);
    let ended = status.ended.as_ref();
    let duration_ms = ended.map_or(since_start.max(0) as u64, |end| end.duration.as_millis() as u64);
    Command {
        command_id: id,
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        cwd: status.cwd,
        state: if ended.is_some() { CommandState::Ended } else { CommandState::Running },
        started_at: ndjson::time(status.started.at_ms),
        ended_at: ended.map(|end| ndjson::time(status.started.at_ms + end.duration.as_millis() as i64)),
        exit_code: ended.map(|end| end.exit_code),
        signal: ended.and_then(|end| end.signal).map(signal_name),
        reason: ended.map(|end| end.reason),
        killed_by: ended.and_then(|end| end.killed_by).map(|by| by.as_str().into()),
        duration_ms,
        stdout_bytes: status.stdout_bytes,
        stderr_bytes: status.stderr_bytes,
        dropped_bytes: status.dropped_bytes,
        timeout_ms: status.started.timeout.as_millis() as u64,
        detached: status.started.detached,
    }
}
