//! The terminals of a chat's sandbox. A page shows one over a WebSocket: [`super::terminal_socket`].
//!
//! A page cannot send its credentials with the request for a WebSocket. So it asks for a ticket, which admits one connection
//! to one terminal, and soon.

use axum::extract::rejection::JsonRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::{Extension, Json};
use bash_tools::provider::{AttachedTerminal, Terminal, TerminalId, TerminalSize};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::must_be_json;
use super::chat_ref::ChatWorkspace;
use super::error::{Error, Result};
use super::identify::SessionEnd;
use super::terminal_socket::{self, Until};
use super::viewers::MayShow;
use super::{Api, guard};

/// The size of a page's terminal.
#[derive(Debug, Deserialize)]
pub(super) struct Size {
    cols: u32,
    rows: u32,
}

/// A terminal in the path.
#[derive(Debug, Deserialize)]
pub(super) struct AtTerminal {
    terminal: String,
}

/// `GET /api/chats/{id}/terminals`
pub(super) async fn list(ChatWorkspace(_, workspace): ChatWorkspace) -> Result<Json<Value>> {
    let terminals: Vec<Value> = workspace.terminals().await?.iter().map(shown).collect();
    Ok(Json(json!({ "terminals": terminals })))
}

fn shown(terminal: &Terminal) -> Value {
    json!({
        "id": terminal.terminal_id,
        "state": terminal.state,
        "startedAt": terminal.started_at,
        "exitCode": terminal.exit_code,
    })
}

/// `POST /api/chats/{id}/terminals`: opens a terminal with a login shell, and the sandbox if necessary.
pub(super) async fn open(
    State(api): State<Api>,
    ChatWorkspace(chat_ref, workspace): ChatWorkspace,
    headers: HeaderMap,
    request: std::result::Result<Json<Size>, JsonRejection>,
) -> Result<Json<Value>> {
    must_be_json(&headers)?;
    let bad = |error: JsonRejection| Error::Invalid { field: "body", problem: error.body_text() };
    let Json(Size { cols, rows }) = request.map_err(bad)?;
    let terminal = workspace.open_terminal(TerminalSize { cols, rows }).await?;
    // A chat that was deleted meanwhile must leave no sandbox.
    if !chat_ref.has_sandbox(&api).await? {
        workspace.delete().await?;
        return Err(Error::NotFound { what: "chat" });
    }
    chat_ref.tell(&api.changes);
    Ok(Json(json!({ "id": terminal })))
}

/// `DELETE /api/chats/{id}/terminals/{terminal}`: ends a terminal with all its processes. Safe to repeat.
pub(super) async fn close(
    ChatWorkspace(_, workspace): ChatWorkspace,
    Path(at): Path<AtTerminal>,
) -> Result<StatusCode> {
    workspace.close_terminal(&at.id()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/chats/{id}/terminals/{terminal}/ticket`: a ticket for one connection.
pub(super) async fn ticket(
    State(api): State<Api>,
    Extension(SessionEnd(session_ended)): Extension<SessionEnd>,
    ChatWorkspace(chat_ref, workspace): ChatWorkspace,
    Path(at): Path<AtTerminal>,
) -> Result<Json<Value>> {
    let terminal = at.id()?;
    // A page sees no response to a request for a WebSocket, so it learns here that the terminal is gone.
    if !workspace.terminals().await?.iter().any(|kept| kept.terminal_id == terminal) {
        return Err(Error::NotFound { what: "terminal" });
    }
    let owner = chat_ref.chats.owner().clone();
    let secret = api.viewers.admit(owner, workspace, terminal, session_ended)?;
    Ok(Json(json!({ "ticket": secret.expose() })))
}

/// `GET /api/terminals/{ticket}`: a WebSocket of a terminal, for the app's own pages.
pub(super) async fn attach(
    State(api): State<Api>,
    Path(secret): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: std::result::Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    // Every page may request a WebSocket of any address.
    if !guard::is_own_page(&headers, guard::host(&headers, &uri).unwrap_or_default()) {
        return Err(Error::Foreign);
    }
    let bad =
        |error: WebSocketUpgradeRejection| Error::Invalid { field: "request", problem: error.body_text() };
    let upgrade = upgrade.map_err(bad)?;
    let viewer = api.viewers.take(&secret).ok_or(Error::NotFound { what: "ticket" })?;
    let shown = api.viewers.shown.token();
    match connect(&viewer).await {
        Ok(attached) => {
            let until = Until { session_ended: viewer.session_ended, stop: api.viewers.stop.clone() };
            Ok(terminal_socket::answer(upgrade, attached, until, (viewer.place, shown)))
        }
        // A page sees no response but that of a connection, so one says why it ends.
        Err(error) => Ok(terminal_socket::refuse(upgrade, error.to_string(), shown)),
    }
}

async fn connect(viewer: &MayShow) -> Result<AttachedTerminal> {
    let attached = viewer.workspace.attach_terminal(&viewer.terminal).await?;
    attached.ok_or(Error::NotFound { what: "terminal" })
}

impl AtTerminal {
    fn id(&self) -> Result<TerminalId> {
        self.terminal.parse().map_err(|_| Error::NotFound { what: "terminal" })
    }
}
