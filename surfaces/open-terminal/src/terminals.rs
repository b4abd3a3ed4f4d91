//! Terminals of the user: open, list, inspect and close. The socket is in [`crate::socket`].

use axum::extract::{Path, State};
use sandbox_api::terminal::{OpenTerminal, Terminal, TerminalState};
use sandbox_client::{Client, Error as ClientError};
use serde_json::{Value, json};
use toolbox::Namespace;

use crate::access::{Chat, Visitor};
use crate::address::{Address, is_gone};
use crate::discovery::ok;
use crate::failure::Failure;
use crate::server::{Answer, Server};

/// Size of a terminal before its viewer has set one.
const COLS: u32 = 80;
const ROWS: u32 = 24;

pub(crate) async fn open(State(server): State<Server>, chat: Chat) -> Answer {
    let request = OpenTerminal {
        cwd: Some(server.cwds.of(&chat)),
        cols: Some(COLS),
        rows: Some(ROWS),
        ..OpenTerminal::default()
    };
    let sandbox = chat.open().await?;
    let terminal = chat.client.open_terminal(&sandbox, &request).await?.terminal_id;
    let address = Address::new(&sandbox, terminal);
    // It ends if no viewer comes.
    server.attachments.watch(&address, &chat.background);
    let terminal = chat.client.terminal(&sandbox, &address.terminal).await?;
    Ok(ok(&described(&address, &terminal)))
}

pub(crate) async fn list(chat: Chat) -> Answer {
    let Some(sandbox) = chat.find().await? else { return Ok(ok(&json!([]))) };
    let terminals = chat.client.terminals(&sandbox).await?.terminals.into_iter();
    let running = terminals.filter(|terminal| terminal.state == TerminalState::Running);
    let described =
        running.map(|terminal| described(&Address::new(&sandbox, terminal.terminal_id.clone()), &terminal));
    Ok(ok(&described.collect()))
}

pub(crate) async fn inspect(visitor: &Visitor, id: &str) -> Answer {
    let address = Address::parse(id).ok_or_else(no_terminal)?;
    let client = &visitor.caller.client;
    let terminal = owned(client, &visitor.namespace, &address).await?;
    Ok(ok(&described(&address, &terminal)))
}

pub(crate) async fn close(State(server): State<Server>, visitor: Visitor, Path(id): Path<String>) -> Answer {
    let address = Address::parse(&id).ok_or_else(no_terminal)?;
    let client = &visitor.caller.client;
    owned(client, &visitor.namespace, &address).await?;
    client.close_terminal(&address.sandbox, &address.terminal).await.map_err(failure_of)?;
    server.attachments.forget(&address);
    Ok(ok(&json!({ "status": "deleted" })))
}

/// Returns a running terminal of a sandbox in the namespace.
async fn owned(client: &Client, namespace: &Namespace, address: &Address) -> Result<Terminal, Failure> {
    let sandbox = client.get(&address.sandbox).await.map_err(failure_of)?;
    if !namespace.contains(&sandbox.session_key) {
        return Err(no_terminal());
    }
    let terminal = client.terminal(&address.sandbox, &address.terminal).await.map_err(failure_of)?;
    if terminal.state == TerminalState::Running { Ok(terminal) } else { Err(no_terminal()) }
}

fn described(address: &Address, terminal: &Terminal) -> Value {
    // The process id in the sandbox is not known.
    json!({ "id": address.text(), "created_at": terminal.started_at, "pid": null })
}

fn failure_of(error: ClientError) -> Failure {
    if is_gone(&error) { no_terminal() } else { error.into() }
}

fn no_terminal() -> Failure {
    Failure::not_found("Session not found")
}
