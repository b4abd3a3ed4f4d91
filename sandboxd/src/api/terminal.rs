//! Terminal handlers: convert between wire and model types.

use axum::Extension;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use sandbox_api::terminal::{
    Cursor, OpenTerminal, ResizeTerminal, Terminal, TerminalList, TerminalOpened, TerminalState,
};
use sandbox_api::{Done, TerminalId};

use super::body::{Input, Json};
use super::caller::{Reader, User};
use super::command::{argv_of, env_of, text};
use super::error::{HttpError, Result};
use super::openapi::answers::*;
use super::openapi::{InSandbox, InTerminal};
use super::params::{self, Path};
use super::server::Held;
use super::{ndjson, terminal_socket};
use crate::model::command::signal_name;
use crate::model::{FieldError, TerminalSize, TerminalSpec, TerminalStatus, limits};
use crate::service;

/// Open a terminal.
///
/// Runs a program on a pseudo-terminal, by default an interactive shell. It keeps running without viewers and while
/// the daemon restarts.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/terminals", operation_id = "openTerminal", tag = "terminals",
    params(InSandbox), request_body = OpenTerminal,
    responses((status = 200, body = TerminalOpened), ByName, ByBody, BySandbox))]
pub(super) async fn open(
    User(access): User,
    Path(id): Path<String>,
    Json(request): Json<OpenTerminal>,
) -> Result<Json<TerminalOpened>> {
    let id = access.sandbox(params::sandbox(&id)?)?;
    let spec = spec_of(request)?;
    let terminal_id = spec.id.clone();
    access.found("terminalId", &terminal_id);
    access.terminals().open(&id, spec).await?;
    Ok(Json(TerminalOpened { terminal_id }))
}

/// List terminals.
///
/// Returns all running terminals and the most recently ended ones, newest first, without their screens. Wakes the
/// sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/terminals", operation_id = "listTerminals", tag = "terminals",
    params(InSandbox), responses((status = 200, body = TerminalList), ByName, BySandbox))]
pub(super) async fn list(Reader(access): Reader, Path(id): Path<String>) -> Result<Json<TerminalList>> {
    let terminals = access.terminals().list(&access.sandbox(params::sandbox(&id)?)?).await?;
    Ok(Json(TerminalList { terminals: terminals.into_iter().map(to_wire).collect() }))
}

/// Inspect a terminal.
///
/// Returns the state of the terminal and its screen. Wakes the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/terminals/{terminalId}", operation_id = "getTerminal", tag = "terminals",
    params(InTerminal), responses((status = 200, body = Terminal), ByName, BySandbox))]
pub(super) async fn inspect(
    Reader(access): Reader,
    Path((id, terminal)): Path<(String, String)>,
) -> Result<Json<Terminal>> {
    let (id, terminal) = (access.sandbox(params::sandbox(&id)?)?, params::terminal(&terminal)?);
    Ok(Json(to_wire(access.terminals().inspect(&id, &terminal).await?)))
}

/// Resize a terminal.
///
/// Notifies the program and every viewer.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/terminals/{terminalId}:resize", operation_id = "resizeTerminal",
    tag = "terminals", params(InTerminal), request_body = ResizeTerminal,
    responses((status = 200, body = Done), ByName, ByBody, ByState, BySandbox))]
pub(super) async fn resize(
    User(access): User,
    Path((id, terminal)): Path<(String, String)>,
    Json(request): Json<ResizeTerminal>,
) -> Result<Json<Done>> {
    let (id, terminal) = (access.sandbox(params::sandbox(&id)?)?, params::terminal(&terminal)?);
    access.terminals().resize(&id, &terminal, TerminalSize::new(request.cols, request.rows)?).await?;
    Ok(Json(Done::OK))
}

/// Type into a terminal.
///
/// Passes the bytes to the program unchanged.
#[utoipa::path(post, path = "/v1/sandboxes/{id}/terminals/{terminalId}/input", operation_id = "typeIntoTerminal", tag = "terminals",
    params(InTerminal), request_body(content_type = "application/octet-stream", description = "What is typed, up to 64 KiB."),
    responses((status = 200, body = Done), ByName, ByUpload, BySize, ByState, BySandbox))]
pub(super) async fn input(
    User(access): User,
    Path((id, terminal)): Path<(String, String)>,
    Input(data): Input,
) -> Result<Json<Done>> {
    let (id, terminal) = (access.sandbox(params::sandbox(&id)?)?, params::terminal(&terminal)?);
    access.terminals().type_into(&id, &terminal, data).await?;
    Ok(Json(Done::OK))
}

/// Close a terminal.
///
/// Hangs up the terminal, kills the remaining processes, and responds when none is left.
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/terminals/{terminalId}", operation_id = "closeTerminal", tag = "terminals",
    params(InTerminal), responses((status = 200, body = Done), ByName, BySandbox))]
pub(super) async fn close(
    User(access): User,
    Path((id, terminal)): Path<(String, String)>,
) -> Result<Json<Done>> {
    let (id, terminal) = (access.sandbox(params::sandbox(&id)?)?, params::terminal(&terminal)?);
    access.terminals().close(&id, &terminal).await?;
    Ok(Json(Done::OK))
}

/// Attach to a terminal.
///
/// Opens a WebSocket (RFC 6455). Binary messages carry bytes in both directions: to the viewer the kept output and
/// then new output, from the viewer input. Text messages are JSON: `resize` from the viewer; `size`, `error` and,
/// last, `exit` to the viewer.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/terminals/{terminalId}/attach", operation_id = "attachTerminal", tag = "terminals",
    params(InTerminal), responses((status = 101, description = "The WebSocket is open."), ByQuery, ByName, BySandbox))]
pub(super) async fn attach(
    User(access): User,
    Path((id, terminal)): Path<(String, String)>,
    Extension(held): Extension<Held>,
    upgrade: std::result::Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let upgrade = upgrade.map_err(HttpError::NoUpgrade)?;
    let (id, terminal) = (access.sandbox(params::sandbox(&id)?)?, params::terminal(&terminal)?);
    // Checked before the upgrade, so that errors are ordinary responses.
    let view = access.terminals().view(&id, &terminal).await?;
    Ok(terminal_socket::answer(upgrade, view, held))
}

fn spec_of(request: OpenTerminal) -> Result<TerminalSpec> {
    let id = TerminalId::random().map_err(|source| service::Error::Randomness { source })?;
    let argv = match (request.cmd, request.args) {
        (None, None) => None,
        (None, Some(_)) => return Err(FieldError::new("args", "requires cmd").into()),
        (Some(cmd), args) => Some(argv_of(cmd, args)?),
    };
    let cols = request.cols.unwrap_or(limits::DEFAULT_TERMINAL_COLS);
    let rows = request.rows.unwrap_or(limits::DEFAULT_TERMINAL_ROWS);
    Ok(TerminalSpec {
        id,
        argv,
        cwd: text("cwd", request.cwd.unwrap_or_default(), limits::MAX_PATH_BYTES)?,
        env: env_of(request.env.unwrap_or_default())?,
        secrets: Vec::new(),
        size: TerminalSize::new(cols, rows)?,
    })
}

fn to_wire(status: TerminalStatus) -> Terminal {
    let mut argv = status.argv.into_iter();
    let ended = status.ended;
    let cursor =
        status.screen.as_ref().map(|screen| Cursor { row: screen.cursor_row, col: screen.cursor_col });
    Terminal {
        terminal_id: status.id,
        state: if ended.is_some() { TerminalState::Ended } else { TerminalState::Running },
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        cwd: status.cwd,
        is_shell: status.is_shell,
        cols: status.size.cols,
        rows: status.size.rows,
        started_at: ndjson::time(status.started_at_ms),
        ended_at: ended.map(|end| ndjson::time(end.at_ms)),
        exit_code: ended.map(|end| end.exit_code),
        signal: ended.and_then(|end| end.signal).map(signal_name),
        reason: ended.map(|end| end.reason),
        viewers: status.viewers,
        bytes: status.bytes,
        screen: status.screen.map(|screen| screen.text),
        cursor,
    }
}
