//! Terminals.

use sandbox_api::SandboxId;
use sandbox_api::terminal::{Terminal, TerminalState};
use serde_json::{Value, json};

use super::schema::{self, Killed, Screen, Session, Sessions};
use crate::terminals::{reply_of, terminal_of};
use crate::toolbox::{Call, Toolbox};
use crate::{Error, Reply, input};

/// How long a call waits for output, in milliseconds.
const WAIT_MS: u64 = 500;

/// Size of a terminal.
const COLS: u32 = 220;
const ROWS: u32 = 50;

impl Toolbox {
    pub(super) async fn boxsh_run_in_terminal(
        &self,
        sandbox: &SandboxId,
        input: schema::RunInTerminal,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let input = input::TerminalOpen {
            command: Some(input.command),
            cwd: None,
            cols: Some(input.cols.unwrap_or(COLS)),
            rows: Some(input.rows.unwrap_or(ROWS)),
            wait_ms: Some(WAIT_MS),
        };
        let reply = self.terminal_open(sandbox, input, call).await?;
        let id =
            reply.structured.as_ref().and_then(|screen| screen["terminalId"].as_str()).map(str::to_owned);
        Ok(Reply::json(&Screen { id, ..screen_of(&reply) }))
    }

    pub(super) async fn boxsh_send_to_terminal(
        &self,
        sandbox: &SandboxId,
        input: schema::SendToTerminal,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let input = input::TerminalSend {
            terminal_id: input.id,
            text: Some(input.command),
            keys: None,
            wait_ms: Some(WAIT_MS),
        };
        Ok(Reply::json(&screen_of(&self.terminal_send(sandbox, input, call).await?)))
    }

    pub(super) async fn boxsh_get_terminal_output(
        &self,
        sandbox: &SandboxId,
        input: schema::OfTerminal,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let input = input::TerminalRead { terminal_id: input.id, wait_ms: Some(WAIT_MS) };
        Ok(Reply::json(&screen_of(&self.terminal_read(sandbox, input, call).await?)))
    }

    pub(super) async fn boxsh_kill_terminal(
        &self,
        sandbox: &SandboxId,
        input: schema::OfTerminal,
    ) -> Result<Reply, Error> {
        let terminal = terminal_of(&input.id)?;
        let last = self.client.terminal(sandbox, &terminal).await?;
        self.client.close_terminal(sandbox, &terminal).await?;
        Ok(Reply::json(&Killed { output: screen_of(&reply_of(last)).output }))
    }

    pub(super) async fn boxsh_list_terminals(
        &self,
        sandbox: &SandboxId,
        _: schema::ListTerminals,
    ) -> Result<Reply, Error> {
        let found = self.client.terminals(sandbox).await?.terminals;
        let result = Sessions { sessions: found.into_iter().map(listed).collect() };
        let text = json!(result.sessions).to_string();
        Ok(Reply::new(text, &result))
    }
}

/// The screen in a result of the default tools.
fn screen_of(reply: &Reply) -> Screen {
    let screen = reply.structured.as_ref().unwrap_or(&Value::Null);
    Screen {
        id: None,
        output: screen["screen"].as_str().unwrap_or_default().to_owned(),
        exited: screen["running"] == false,
        exit_code: screen["exitCode"].as_i64(),
    }
}

fn listed(terminal: Terminal) -> Session {
    // A command is listed without the shell that runs it.
    let command = match terminal.args.as_slice() {
        [flag, command] if flag == "-lc" => command.clone(),
        args => [std::slice::from_ref(&terminal.cmd), args].concat().join(" "),
    };
    Session {
        id: terminal.terminal_id.to_string(),
        command,
        alive: terminal.state == TerminalState::Running,
        cols: terminal.cols,
        rows: terminal.rows,
    }
}
