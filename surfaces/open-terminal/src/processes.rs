//! Commands: `run_command`, `list_processes`, `get_process_status`, `send_process_input` and `kill_process`.

use std::time::Duration;

use axum::extract::{Path, State};
use sandbox_api::command::{Command, CommandState, EndReason, KillCommand, StartCommand};
use sandbox_api::{CommandId, ErrorCode, SandboxId, StringMap};
use sandbox_client::{Client, Error as ClientError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Chat;
use crate::discovery::ok;
use crate::escapes::unescaped;
use crate::failure::{Failure, is_missing};
use crate::output::Entries;
use crate::params::{Json, Params};
use crate::paths;
use crate::server::{Answer, Server};

/// Time limit of a command. The daemon lowers it to its own maximum.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum time that a request waits for a command's end, in seconds.
const MAX_WAIT_SECS: f64 = 300.0;

/// Maximum number of commands in a list.
const MAX_LISTED: u32 = 200;

/// How long a command may take to end after SIGTERM before the response says that it still runs.
const TERMINATE: Duration = Duration::from_secs(5);

/// What a terminal would send for Ctrl-C and Ctrl-D. A command has no terminal, so they become a signal and the end of
/// its input.
const INTERRUPT: &str = "\u{3}";
const END_OF_INPUT: &str = "\u{4}";

#[derive(Deserialize)]
pub(crate) struct Run {
    command: String,
    cwd: Option<String>,
    env: Option<StringMap>,
}

#[derive(Deserialize)]
pub(crate) struct Input {
    input: String,
}

/// Which output a response has.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    wait: Duration,
    offset: u64,
    tail: Option<usize>,
}

impl Wanted {
    fn of(params: &Params) -> Result<Self, Failure> {
        let wait =
            params.number("wait", 0.0..=MAX_WAIT_SECS)?.map_or(Duration::ZERO, Duration::from_secs_f64);
        let offset = params.number("offset", 0..=u64::MAX)?.unwrap_or(0);
        Ok(Self { wait, offset, tail: params.number("tail", 1..=usize::MAX)? })
    }
}

pub(crate) async fn run(
    State(server): State<Server>,
    chat: Chat,
    params: Params,
    Json(request, share): Json<Run>,
) -> Answer {
    let wanted = Wanted { offset: 0, ..Wanted::of(&params)? };
    let cwd = server.cwds.of(&chat);
    let cwd = request.cwd.map_or(Ok(cwd.clone()), |path| paths::absolute(&path, &cwd))?;
    let start = StartCommand {
        script: Some(request.command.clone()),
        cwd: Some(cwd.clone()),
        env: request.env,
        timeout_ms: Some(TIME_LIMIT.as_millis() as u64),
        // It runs in the background, whether or not the response waits for it.
        detached: Some(true),
        open_stdin: Some(true),
        save_output: Some(true),
        ..StartCommand::default()
    };
    let sandbox = chat.open().await?;
    let command = chat.client.start(&sandbox, &start).await?.command_id;
    drop((start, share));
    let mut result = observe(&chat.client, &sandbox, &command, wanted).await?;
    result["command"] = request.command.into();
    result["cwd"] = cwd.into();
    Ok(ok(&result))
}

pub(crate) async fn list(chat: Chat) -> Answer {
    let commands = match chat.find().await? {
        Some(sandbox) => chat.client.commands(&sandbox, MAX_LISTED).await?.commands,
        None => Vec::new(),
    };
    let processes = commands.iter().map(|command| {
        let mut process = described(command);
        process["log_path"] = Value::Null;
        process
    });
    Ok(ok(&processes.collect()))
}

pub(crate) async fn status(chat: Chat, Path(id): Path<String>, params: Params) -> Answer {
    let (command, wanted) = (command_of(&id)?, Wanted::of(&params)?);
    let sandbox = chat.find().await?.ok_or_else(no_process)?;
    let status = observe(&chat.client, &sandbox, &command, wanted).await;
    Ok(ok(&status.map_err(failure_of)?))
}

pub(crate) async fn input(
    chat: Chat,
    Path(id): Path<String>,
    Json(Input { input }, _): Json<Input>,
) -> Answer {
    let (command, text) = (command_of(&id)?, unescaped(&input));
    let sandbox = chat.find().await?.ok_or_else(no_process)?;
    let sent = match text.as_str() {
        INTERRUPT => {
            let signal = KillCommand { signal: Some("SIGINT".into()) };
            chat.client.kill(&sandbox, &command, &signal).await.map(drop)
        }
        END_OF_INPUT => chat.client.write_stdin(&sandbox, &command, "", true).await.map(drop),
        text => chat.client.write_stdin(&sandbox, &command, text.to_owned(), false).await.map(drop),
    };
    match sent {
        Err(error) if error.code() == Some(ErrorCode::WrongState) => {
            Err(Failure::bad_request(format_args!("the process takes no more input: {error}")))
        }
        sent => {
            sent.map_err(failure_of)?;
            Ok(ok(&json!({ "status": "ok" })))
        }
    }
}

pub(crate) async fn kill(chat: Chat, Path(id): Path<String>, params: Params) -> Answer {
    let (command, force) = (command_of(&id)?, params.flag("force", false)?);
    let sandbox = chat.find().await?.ok_or_else(no_process)?;
    let signal = (!force).then(|| "SIGTERM".to_owned());
    let killed = chat.client.kill(&sandbox, &command, &KillCommand { signal }).await.map_err(failure_of)?;
    let has_ended = force
        || killed.already_ended
        || has_ended(&chat.client, &sandbox, &command, TERMINATE).await.map_err(failure_of)?;
    let status = if has_ended { "killed" } else { "running" };
    Ok(ok(&json!({ "status": status })))
}

/// Waits for the command's end. Returns whether it has ended.
async fn has_ended(
    client: &Client,
    sandbox: &SandboxId,
    command: &CommandId,
    wait: Duration,
) -> Result<bool, ClientError> {
    match client.wait(sandbox, command, Some(wait)).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::DeadlineExceeded) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits for the command's end, and describes the command and its output.
async fn observe(
    client: &Client,
    sandbox: &SandboxId,
    command: &CommandId,
    wanted: Wanted,
) -> Result<Value, ClientError> {
    if wanted.wait > Duration::ZERO {
        has_ended(client, sandbox, command, wanted.wait).await?;
    }
    // Before the output, so that a process that is done has all of it.
    let mut status = described(&client.inspect(sandbox, command).await?);
    let records = client.logs(sandbox, command, wanted.offset, false).await?;
    let entries = Entries::read(records, wanted.offset, wanted.tail).await?;
    status["output"] = entries.output.into_iter().map(Value::from).collect();
    status["truncated"] = entries.truncated.into();
    status["next_offset"] = entries.next_offset.into();
    status["log_path"] = entries.log_path.into();
    Ok(status)
}

fn described(command: &Command) -> Value {
    let status = match (command.state, command.reason) {
        (CommandState::Running, _) => "running",
        (CommandState::Ended, Some(EndReason::Killed)) => "killed",
        (CommandState::Ended, _) => "done",
    };
    // A script is shown without the shell that runs it.
    let text = match (command.cmd.as_str(), command.args.as_slice()) {
        (bash, [flag, script]) if bash.ends_with("bash") && flag == "-c" => script.clone(),
        (program, args) => [&[program.to_owned()], args].concat().join(" "),
    };
    json!({ "id": command.command_id, "command": text, "status": status, "exit_code": command.exit_code })
}

fn command_of(id: &str) -> Result<CommandId, Failure> {
    id.parse().map_err(|_| no_process())
}

fn failure_of(error: ClientError) -> Failure {
    if is_missing(&error, "command") { no_process() } else { error.into() }
}

fn no_process() -> Failure {
    Failure::not_found("Process not found")
}
