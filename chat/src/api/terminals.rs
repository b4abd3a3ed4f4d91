//! The terminals of a chat's sandbox. A page shows one over a WebSocket: [`super::terminal_socket`].
//!
//! A page cannot send its credentials with the request for a WebSocket. So it asks for a ticket, which admits one connection
//! to one terminal, and soon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::{Extension, Json};
use bash_tools::Workspace;
use bash_tools::provider::{AttachedTerminal, Terminal, TerminalId, TerminalSize};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::must_be_json;
use super::chat_ref::ChatWorkspace;
use super::error::{Error, Result};
use super::identify::SessionEnd;
use super::places::{Place, Places};
use super::terminal_socket::{self, Until};
use super::until_ended::Ended;
use super::{Api, guard};
use crate::account::{Owner, Secret, SecretHash};
use crate::people;

/// Maximum number of terminals that pages show at once. Each has a connection.
const MAX_VIEWERS: usize = 128;

/// Maximum number of terminals that the pages of one user show at once.
const MAX_VIEWERS_OF_USER: usize = 16;

/// Lifetime of a ticket.
const TICKET_LIFETIME: Duration = Duration::from_secs(30);

/// Maximum number of unused tickets. The oldest makes room for a new one.
const MAX_TICKETS: usize = 256;

/// The viewers of terminals, and the tickets for more of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Viewers {
    tickets: Arc<Mutex<HashMap<SecretHash, Ticket>>>,
    places: Places,
    /// The connections, which are served outside of their requests.
    shown: TaskTracker,
    /// Cancelled when the app stops.
    stop: CancellationToken,
}

/// A permission to show one terminal.
struct Ticket {
    workspace: Workspace,
    terminal: TerminalId,
    owner: Owner,
    /// Ready when the session has ended that asked for it.
    session_ended: Ended,
    expires: Instant,
}

impl Default for Viewers {
    fn default() -> Self {
        let places = Places::new(MAX_VIEWERS, MAX_VIEWERS_OF_USER);
        Self { tickets: Arc::default(), places, shown: TaskTracker::new(), stop: CancellationToken::new() }
    }
}

impl Viewers {
    /// Ends all connections, and waits until each page knows why.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.shown.close();
        self.shown.wait().await;
    }

    fn keep(&self, secret: &Secret, ticket: Ticket) {
        let mut tickets = self.tickets();
        let now = Instant::now();
        tickets.retain(|_, ticket| now < ticket.expires);
        if tickets.len() >= MAX_TICKETS {
            let oldest = tickets.iter().min_by_key(|(_, ticket)| ticket.expires).map(|(hash, _)| *hash);
            oldest.map(|oldest| tickets.remove(&oldest));
        }
        tickets.insert(secret.hash(), ticket);
    }

    /// Uses up a ticket.
    fn take(&self, secret: &str) -> Option<Ticket> {
        let ticket = self.tickets().remove(&SecretHash::of(secret))?;
        (Instant::now() < ticket.expires).then_some(ticket)
    }

    fn tickets(&self) -> MutexGuard<'_, HashMap<SecretHash, Ticket>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    let secret = Secret::generate().map_err(people::Error::from)?;
    let ticket = Ticket {
        workspace,
        terminal,
        owner: chat_ref.chats.owner().clone(),
        session_ended,
        expires: Instant::now() + TICKET_LIFETIME,
    };
    api.viewers.keep(&secret, ticket);
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
    let ticket = api.viewers.take(&secret).ok_or(Error::NotFound { what: "ticket" })?;
    let shown = api.viewers.shown.token();
    match connect(&api, &ticket).await {
        Ok((attached, place)) => {
            let until = Until { session_ended: ticket.session_ended, stop: api.viewers.stop.clone() };
            Ok(terminal_socket::answer(upgrade, attached, until, (place, shown)))
        }
        // A page sees no response but that of a connection, so one says why it ends.
        Err(error) => Ok(terminal_socket::refuse(upgrade, error.to_string(), shown)),
    }
}

async fn connect(api: &Api, ticket: &Ticket) -> Result<(AttachedTerminal, Place)> {
    let place = api.viewers.places.take(ticket.owner.clone())?;
    let attached = ticket.workspace.attach_terminal(&ticket.terminal).await?;
    Ok((attached.ok_or(Error::NotFound { what: "terminal" })?, place))
}

impl AtTerminal {
    fn id(&self) -> Result<TerminalId> {
        self.terminal.parse().map_err(|_| Error::NotFound { what: "terminal" })
    }
}
