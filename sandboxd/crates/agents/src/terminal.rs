//! Terminals: calls to the agent.

use agent_protocol::TERMINAL_SECRETS_SINCE;
use agent_protocol::v1::{self, terminal_event};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use sandbox_api::TerminalId;
use sandbox_api::command::EndReason;

use super::command::{secrets_to_wire, within};
use super::{AgentHandle, Error};
use sandboxd_model::terminal::{TerminalEnded, TerminalScreen, ViewFrom};
use sandboxd_model::{TerminalEvent, TerminalSize, TerminalSpec, TerminalStatus, limits};

/// The events of a terminal, until the connection ends.
pub type TerminalEvents = std::pin::Pin<Box<dyn Stream<Item = Result<TerminalEvent, Error>> + Send>>;

impl AgentHandle {
    /// Opens a terminal. Returns when its program runs.
    pub async fn open_terminal(&self, spec: &TerminalSpec) -> Result<(), Error> {
        let argv = spec.argv.clone().map(|(program, args)| v1::Argv { program, args });
        let request = v1::OpenTerminalRequest {
            terminal_id: spec.id.to_string(),
            argv,
            cwd: spec.cwd.clone(),
            env: spec.env.clone(),
            size: Some(size_to_wire(spec.size)),
            secrets: secrets_to_wire(&spec.secrets),
        };
        let since = if spec.secrets.is_empty() { 0 } else { TERMINAL_SECRETS_SINCE };
        let mut client = self.terminals_client_since(since, limits::AGENT_ABSENCE).await?;
        within(limits::AGENT_CALL, client.open(request)).await?;
        Ok(())
    }

    /// All terminals that the agent keeps, newest first, without their screens.
    pub async fn terminals(&self) -> Result<Vec<TerminalStatus>, Error> {
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        let reply = within(limits::AGENT_CALL, client.list(v1::ListTerminalsRequest {})).await?;
        reply.into_inner().terminals.into_iter().map(status).collect()
    }

    /// A terminal with its screen.
    pub async fn inspect_terminal(&self, id: &TerminalId) -> Result<TerminalStatus, Error> {
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        status(within(limits::AGENT_CALL, client.inspect(reference(id))).await?.into_inner())
    }

    /// Changes the size of a terminal.
    pub async fn resize_terminal(&self, id: &TerminalId, size: TerminalSize) -> Result<(), Error> {
        let request =
            v1::ResizeTerminalRequest { terminal_id: id.to_string(), size: Some(size_to_wire(size)) };
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        within(limits::AGENT_CALL, client.resize(request)).await?;
        Ok(())
    }

    /// Writes input to a terminal. Returns when the kernel has accepted all of it.
    pub async fn type_into(&self, id: &TerminalId, data: Bytes) -> Result<(), Error> {
        let request = v1::TerminalInputRequest { terminal_id: id.to_string(), data };
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        within(limits::AGENT_CALL, client.input(request)).await?;
        Ok(())
    }

    /// Ends a terminal and everything started from it, and removes it. Returns when all of its processes have
    /// ended.
    pub async fn close_terminal(&self, id: &TerminalId) -> Result<(), Error> {
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        within(limits::CLOSE_TERMINAL, client.close(reference(id))).await?;
        Ok(())
    }

    /// Views a terminal.
    pub async fn view_terminal(&self, id: &TerminalId, from: ViewFrom) -> Result<TerminalEvents, Error> {
        let (after, history) = match from {
            ViewFrom::After(after) => (Some(after), false),
            ViewFrom::Scrollback => (None, true),
            ViewFrom::Screen => (None, false),
        };
        let request = v1::ViewTerminalRequest { terminal_id: id.to_string(), after, history };
        let mut client = self.terminals_client(limits::AGENT_ABSENCE).await?;
        let events = within(limits::AGENT_CALL, client.view(request)).await?.into_inner();
        Ok(events.map(|event| decode_event(event?)).boxed())
    }
}

fn reference(id: &TerminalId) -> v1::TerminalRef {
    v1::TerminalRef { terminal_id: id.to_string() }
}

fn size_to_wire(size: TerminalSize) -> v1::TerminalSize {
    v1::TerminalSize { cols: size.cols, rows: size.rows }
}

fn size(wire: v1::TerminalSize) -> TerminalSize {
    TerminalSize { cols: wire.cols, rows: wire.rows }
}

fn status(wire: v1::TerminalStatus) -> Result<TerminalStatus, Error> {
    Ok(TerminalStatus {
        id: wire.terminal_id.parse().map_err(|_| Error::Malformed { missing: "terminal_id" })?,
        argv: wire.argv,
        cwd: wire.cwd,
        is_shell: wire.is_shell,
        size: size(wire.size.ok_or(Error::Malformed { missing: "size" })?),
        started_at_ms: wire.started_at_ms,
        ended: wire.ended.as_ref().map(ended).transpose()?,
        viewers: wire.viewers,
        bytes: wire.bytes,
        screen: wire.screen.map(|screen| TerminalScreen {
            text: screen.text,
            cursor_row: screen.cursor_row,
            cursor_col: screen.cursor_col,
        }),
    })
}

fn ended(wire: &v1::TerminalEnded) -> Result<TerminalEnded, Error> {
    let reason = match wire.reason() {
        v1::EndReason::Exited => EndReason::Exited,
        v1::EndReason::Killed => EndReason::Killed,
        v1::EndReason::Timeout => EndReason::Timeout,
        v1::EndReason::Oom => EndReason::Oom,
        v1::EndReason::Unspecified => return Err(Error::Malformed { missing: "reason" }),
    };
    let signal = (wire.signal != 0).then_some(wire.signal);
    Ok(TerminalEnded { reason, exit_code: wire.exit_code, signal, at_ms: wire.ended_at_ms })
}

fn decode_event(wire: v1::TerminalEvent) -> Result<TerminalEvent, Error> {
    Ok(match wire.event.ok_or(Error::Malformed { missing: "event" })? {
        terminal_event::Event::Size(wire) => TerminalEvent::Size(size(wire)),
        terminal_event::Event::Output(v1::TerminalOutput { data, after }) => {
            TerminalEvent::Output { data, after }
        }
        terminal_event::Event::Ended(wire) => TerminalEvent::Ended(ended(&wire)?),
    })
}
