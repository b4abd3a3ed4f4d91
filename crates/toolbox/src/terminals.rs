//! Terminals: `terminal_open`, `terminal_send`, `terminal_read`, `terminal_close` and `terminal_list`.
//!
//! A model cannot see a screen change. A call therefore waits until the screen has changed and then stayed the same for a
//! moment. It returns the screen.

use std::time::Duration;

use output_text::{Excerpt, Keep};
use sandbox_api::terminal::{OpenTerminal, Terminal, TerminalState};
use sandbox_api::{SandboxId, TerminalId};
use tokio::time::{Instant, sleep};

use crate::toolbox::{Call, Toolbox};
use crate::{Error, Reply, input, keys, output};

/// How long a call waits for the screen to settle, by default and at most.
const DEFAULT_WAIT: Duration = Duration::from_secs(2);
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A screen that has not changed for this long has settled.
const SETTLED: Duration = Duration::from_millis(250);

/// Polling interval at first, and after [`FAST_POLLS`].
const POLL: Duration = Duration::from_millis(50);
const SLOW_POLL: Duration = Duration::from_millis(250);
const FAST_POLLS: Duration = Duration::from_secs(2);

/// Maximum number of characters of a screen in a result.
const MAX_SCREEN_CHARS: usize = 20_000;

/// Characters of an unknown key in an error.
const SHOWN_KEY_CHARS: usize = 40;

/// Maximum number of keys in one call.
const MAX_KEYS: usize = 1000;

impl Toolbox {
    pub(crate) async fn terminal_open(
        &self,
        sandbox: &SandboxId,
        input: input::TerminalOpen,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let wait = wait_of(input.wait_ms)?;
        let (cmd, args) = match input.command {
            Some(command) => (Some("bash".to_owned()), Some(vec!["-lc".to_owned(), command])),
            None => (None, None),
        };
        let request =
            OpenTerminal { cmd, args, cwd: input.cwd, env: None, cols: input.cols, rows: input.rows };
        let terminal = self.client.open_terminal(sandbox, &request).await?.terminal_id;
        self.settled(sandbox, &terminal, 0, wait, call).await.map_err(Error::after_start)
    }

    pub(crate) async fn terminal_send(
        &self,
        sandbox: &SandboxId,
        input: input::TerminalSend,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let (terminal, wait) = (terminal_of(&input.terminal_id)?, wait_of(input.wait_ms)?);
        let mut bytes = input.text.unwrap_or_default().into_bytes();
        let keys = input.keys.unwrap_or_default();
        if keys.len() > MAX_KEYS {
            return Err(Error::Argument {
                field: "keys",
                problem: format!("must have at most {MAX_KEYS} entries"),
            });
        }
        for key in &keys {
            let shown: String = key.chars().take(SHOWN_KEY_CHARS).collect();
            let problem = || format!("has the unknown key `{shown}`: use names such as Enter, Up or Ctrl-C");
            let sent =
                keys::bytes_of(key).ok_or_else(|| Error::Argument { field: "keys", problem: problem() })?;
            bytes.extend(sent);
        }
        if bytes.is_empty() {
            return Err(Error::Argument { field: "text", problem: "or `keys` must be given".into() });
        }
        let before = self.client.terminal(sandbox, &terminal).await?.bytes;
        self.client.type_into(sandbox, &terminal, bytes).await?;
        self.settled(sandbox, &terminal, before, wait, call).await
    }

    pub(crate) async fn terminal_read(
        &self,
        sandbox: &SandboxId,
        input: input::TerminalRead,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let terminal = terminal_of(&input.terminal_id)?;
        let wait = input.wait_ms.map_or(Ok(Duration::ZERO), |ms| wait_of(Some(ms)))?;
        let before = self.client.terminal(sandbox, &terminal).await?.bytes;
        self.settled(sandbox, &terminal, before, wait, call).await
    }

    pub(crate) async fn terminal_close(
        &self,
        sandbox: &SandboxId,
        input: input::TerminalClose,
    ) -> Result<Reply, Error> {
        let terminal = terminal_of(&input.terminal_id)?;
        self.client.close_terminal(sandbox, &terminal).await?;
        let text = format!("{terminal} and everything started from it was ended.");
        Ok(Reply::new(text, &output::TerminalClosed { terminal_id: terminal }))
    }

    pub(crate) async fn terminal_list(
        &self,
        sandbox: &SandboxId,
        _: input::TerminalList,
    ) -> Result<Reply, Error> {
        let found = self.client.terminals(sandbox).await?.terminals;
        let terminals: Vec<_> = found.into_iter().map(listed).collect();
        let lines = terminals.iter().map(|terminal| {
            let state = if terminal.running { "running" } else { "ended" };
            format!(
                "{}  {state}  {}x{}  {}",
                terminal.terminal_id, terminal.cols, terminal.rows, terminal.command
            )
        });
        let text = match lines.collect::<Vec<_>>() {
            lines if lines.is_empty() => "No terminal is open.".to_owned(),
            lines => lines.join("\n"),
        };
        Ok(Reply::new(text, &output::Terminals { terminals }))
    }

    /// Waits until the program has written more than `before` bytes and the screen has settled, or the program has
    /// ended, for at most `wait`. Returns the screen.
    async fn settled(
        &self,
        sandbox: &SandboxId,
        terminal: &TerminalId,
        before: u64,
        wait: Duration,
        call: &Call<'_>,
    ) -> Result<Reply, Error> {
        let begin = Instant::now();
        let (mut seen, mut changed_at): (Option<Terminal>, _) = (None, begin);
        loop {
            // The call has had its effect, so a fault that passes must not fail it: the model would repeat the call.
            match self.client.terminal(sandbox, terminal).await {
                Ok(now) => {
                    if seen.as_ref().is_none_or(|seen| seen.bytes != now.bytes) {
                        changed_at = Instant::now();
                    }
                    seen = Some(now);
                }
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(error.into()),
            }
            let is_settled = seen.as_ref().is_some_and(|seen| {
                let is_quiet = seen.bytes > before && changed_at.elapsed() >= SETTLED;
                is_quiet || seen.state == TerminalState::Ended
            });
            if is_settled || begin.elapsed() >= wait || call.cancel.is_cancelled() {
                return Ok(seen.map_or_else(|| unseen(terminal), reply_of));
            }
            sleep(if begin.elapsed() < FAST_POLLS { POLL } else { SLOW_POLL }).await;
        }
    }
}

/// The reply if the screen could not be read in time.
fn unseen(terminal: &TerminalId) -> Reply {
    let text =
        format!("[{terminal}: the screen could not be read. Do not repeat the call, but call terminal_read]");
    let result = output::TerminalScreen {
        terminal_id: terminal.clone(),
        running: true,
        screen: String::new(),
        cursor_row: None,
        cursor_col: None,
        exit_code: None,
    };
    Reply::new(text, &result)
}

pub(crate) fn reply_of(terminal: Terminal) -> Reply {
    let rows = terminal.screen.as_deref().unwrap_or_default();
    let mut screen = Excerpt::new(Keep::Both, MAX_SCREEN_CHARS);
    for row in rows.trim_end().lines() {
        screen.push(row.trim_end().as_bytes());
        screen.push(b"\n");
    }
    screen.finish();
    let running = terminal.state == TerminalState::Running;
    let result = output::TerminalScreen {
        terminal_id: terminal.terminal_id,
        running,
        screen: screen.shown().with_notice(None),
        cursor_row: terminal.cursor.map(|cursor| cursor.row),
        cursor_col: terminal.cursor.map(|cursor| cursor.col),
        exit_code: terminal.exit_code,
    };
    let ending = match (running, result.exit_code) {
        (true, _) => format!("[{} is open]", result.terminal_id),
        (false, Some(code)) => format!("[{} has ended, exit code {code}]", result.terminal_id),
        (false, None) => format!("[{} has ended]", result.terminal_id),
    };
    Reply::new(format!("{}{ending}", result.screen), &result)
}

fn listed(terminal: Terminal) -> output::ListedTerminal {
    let mut argv = terminal.args;
    argv.insert(0, terminal.cmd);
    output::ListedTerminal {
        terminal_id: terminal.terminal_id,
        command: argv.join(" "),
        running: terminal.state == TerminalState::Running,
        cols: terminal.cols,
        rows: terminal.rows,
    }
}

pub(crate) fn terminal_of(text: &str) -> Result<TerminalId, Error> {
    text.parse().map_err(|error: sandbox_api::IdError| Error::Argument {
        field: "terminalId",
        problem: format!("is {error}: take it from the result of `terminal_open`"),
    })
}

fn wait_of(wait_ms: Option<u64>) -> Result<Duration, Error> {
    let wait = wait_ms.map_or(DEFAULT_WAIT, Duration::from_millis);
    if wait > MAX_WAIT {
        let problem = format!("must be at most {}", MAX_WAIT.as_millis());
        return Err(Error::Argument { field: "waitMs", problem });
    }
    Ok(wait)
}
