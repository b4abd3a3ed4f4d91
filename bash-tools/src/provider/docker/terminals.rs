//! Terminals of sandboxd.

use async_trait::async_trait;
use futures::{StreamExt, sink};
use sandbox_api::ErrorCode;
use sandbox_api::terminal::{FromTerminal, OpenTerminal, Terminal};
use sandbox_client::{Client, Keyboard, TerminalEvent};

use super::{Docker, fault, id};
use crate::provider::{
    AttachedTerminal, Error, Result, SandboxId, TerminalId, TerminalInput, TerminalOutput, TerminalSize,
    Terminals,
};

#[async_trait]
impl Terminals for Docker {
    async fn open(&self, sandbox: &SandboxId, size: TerminalSize) -> Result<TerminalId> {
        let id = &id(sandbox)?;
        let TerminalSize { cols, rows } = size;
        let request = &OpenTerminal { cols: Some(cols), rows: Some(rows), ..OpenTerminal::default() };
        let open = |client: Client| async move { client.open_terminal(id, request).await };
        let opened = self.subjects.call(sandbox.subject(), open).await.map_err(fault)?;
        Ok(opened.terminal_id)
    }

    async fn list(&self, sandbox: &SandboxId) -> Result<Vec<Terminal>> {
        let id = &id(sandbox)?;
        let list = |client: Client| async move { client.terminals(id).await };
        match self.subjects.call(sandbox.subject(), list).await {
            Ok(list) => Ok(list.terminals),
            // A parked sandbox runs none.
            Err(error) if error.code() == Some(ErrorCode::WrongState) => Ok(Vec::new()),
            Err(error) => Err(fault(error)),
        }
    }

    async fn attach(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<Option<AttachedTerminal>> {
        let id = &id(sandbox)?;
        let attach = |client: Client| async move { client.attach_terminal(id, terminal).await };
        match self.subjects.call(sandbox.subject(), attach).await {
            Ok((events, keyboard)) => Ok(Some(AttachedTerminal {
                output: events.map(|event| Ok(output(event.map_err(fault)?))).boxed(),
                input: Box::pin(sink::unfold(keyboard, send)),
            })),
            Err(error) if is_without_terminal(&error) => Ok(None),
            Err(error) => Err(fault(error)),
        }
    }

    async fn close(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<()> {
        let id = &id(sandbox)?;
        let close = |client: Client| async move { client.close_terminal(id, terminal).await };
        match self.subjects.call(sandbox.subject(), close).await {
            Ok(_) => Ok(()),
            Err(error) if is_without_terminal(&error) => Ok(()),
            Err(error) => Err(fault(error)),
        }
    }
}

fn output(event: TerminalEvent) -> TerminalOutput {
    TerminalOutput::Message(match event {
        TerminalEvent::Output(bytes) => return TerminalOutput::Bytes(bytes),
        TerminalEvent::Size { cols, rows } => FromTerminal::Size { cols, rows },
        TerminalEvent::NotDone(error) => FromTerminal::Error { error },
        TerminalEvent::Exit { exit_code, signal, reason } => FromTerminal::Exit { exit_code, signal, reason },
    })
}

async fn send(mut keyboard: Keyboard, input: TerminalInput) -> Result<Keyboard> {
    let sent = match input {
        TerminalInput::Bytes(bytes) => keyboard.type_in(bytes).await,
        TerminalInput::Resize(TerminalSize { cols, rows }) => keyboard.resize(cols, rows).await,
    };
    sent.map(|()| keyboard).map_err(|error| Error::Broken(error.into()))
}

fn is_without_terminal(error: &sandbox_client::Error) -> bool {
    let resource = error.body().and_then(|body| body.details.get("resource"));
    error.code() == Some(ErrorCode::NotFound) && resource.is_some_and(|resource| resource == "terminal")
}
