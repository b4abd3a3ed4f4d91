//! `bash_20250124`: a shell with state.
//!
//! No process waits between two calls. Each call is a new bash that starts with the state that the previous one left.
//! A waiting process would be lost when the sandbox is parked, its machine stops or its memory is full. It would need
//! a channel that one provider does not have, and the time limit of a single command could not apply to it. A hanging
//! command would block it forever. The state is a file in the workspace's directory `.remcochat`, written atomically.
//!
//! The following state is kept:
//!
//! - working directory, `OLDPWD` and the stack of `pushd`
//! - variables with their attributes, including unset ones
//! - functions and aliases
//! - options of `set` and `shopt`
//! - traps
//! - umask, soft limits, arguments of `set --`, and `$?`
//!
//! Background processes continue but are not jobs of the next call: `jobs`, `wait` and `$!` do not know them. File
//! descriptors opened by `exec` are not kept. `exit` ends the call but not the shell. Local variables of a function
//! that ends the shell are kept as if they were not local. An ERR trap runs once more if the last command fails.
//! Concurrent calls wait for each other.
//!
//! A call leaves the state unchanged and reports that if it is killed, replaces its shell with `exec`, or exits with an
//! EXIT trap of its own.
//!
//! `shell/call.sh` wraps a command from outside, `shell/session.sh` from inside.

use futures::{FutureExt, Stream, StreamExt, stream};
use output_text::Keep;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::provider::{EndReason, Event, Running, WORKSPACE};
use crate::tools::bash::{self, Lifetime, Starting, quoted};
use crate::tools::output::{CANCELLED, Parts};
use crate::tools::{BashOutput, Error, Result, Toolkit};

/// Maximum length of a command in bytes. Linux allows about 2 MiB of arguments.
const MAX_COMMAND_BYTES: usize = 1024 * 1024;

/// Maximum length of a piece of a command. Linux allows no argument of 128 KiB.
const MAX_PIECE_BYTES: usize = 96 * 1024;

/// Maximum size of the state in bytes. All of it is read for every call.
const MAX_STATE_BYTES: usize = 1024 * 1024;

/// How long before its own deadline a waiting call gives up, so that it can report that.
const REPORT_MARGIN_S: f64 = 1.0;

/// Minimum time that a call waits for another one.
const MIN_WAIT_S: f64 = 0.5;

const CALL: &str = include_str!("shell/call.sh");
const SESSION: &str = include_str!("shell/session.sh");

const STATE_UNCHANGED: &str = "This command did not change the shell's state.";

/// Input from the model: a command, or a restart of the shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellInput {
    /// Command to run, at most 1 MiB.
    #[serde(default)]
    pub command: Option<String>,
    /// Discards the state of the shell.
    #[serde(default)]
    pub restart: Option<bool>,
}

impl Toolkit {
    /// Runs a command in the shell and streams its state like [`Toolkit::bash`]. Waiting for another command of this
    /// shell counts against its time limit.
    pub fn shell(
        &self,
        input: ShellInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        let limits = self.limits();
        let turn_s = (limits.timeout.as_secs_f64() - REPORT_MARGIN_S).max(MIN_WAIT_S);
        // Checked before a hook sees it, and again after.
        if let Err(error) = script_of(input.clone(), turn_s) {
            return stream::iter([Err(error)]).left_stream();
        }
        let starting = with_end_notice(self.start_in_shell(input, turn_s));
        let tools = self.clone();
        let outputs = bash::stream(
            starting,
            Lifetime::Stream,
            self.pace(),
            Parts::new(Keep::Tail, limits.output),
            cancel.clone(),
        );
        let with_notice =
            move |output| if cancel.is_cancelled() { with_cancel_notice(output) } else { output };
        outputs.map(move |output| Ok(tools.shown(with_notice(output?)))).right_stream()
    }

    fn start_in_shell(&self, input: ShellInput, turn_s: f64) -> Starting {
        let tools = self.clone();
        Box::pin(async move {
            let command = match input.command {
                None => None,
                Some(command) => Some(tools.allowed(command).await?),
            };
            tools.start_script(script_of(ShellInput { command, ..input }, turn_s)?).await
        })
    }
}

fn script_of(input: ShellInput, turn_s: f64) -> Result<String> {
    let bad = |problem: String| Err(Error::BadInput { field: "command", problem });
    match (input.restart, input.command) {
        (Some(true), None) => Ok(call(&[], turn_s, "restart")),
        (None | Some(false), Some(command)) if command.len() > MAX_COMMAND_BYTES => {
            bad(format!("must be at most {MAX_COMMAND_BYTES} bytes long"))
        }
        (None | Some(false), Some(command)) if command.contains('\0') => {
            bad("must not have NUL characters".to_owned())
        }
        (None | Some(false), Some(command)) => {
            Ok(call(&pieces(&command).map(quoted).collect::<Vec<_>>(), turn_s, "call"))
        }
        _ => bad("or `restart` must be given, and not both".to_owned()),
    }
}

/// One operation of `call.sh`, in the environment that every command has.
fn call(pieces: &[String], turn_s: f64, act: &str) -> String {
    let (environment, session, command) = (bash::script(""), quoted(SESSION), pieces.join(" "));
    format!(
        "{environment}directory={WORKSPACE}/.remcochat turn_s={turn_s:.1} limit={MAX_STATE_BYTES}\n\
         session={session}\ncommand=({command})\n{CALL}{act}\n"
    )
}

/// Splits the command into pieces that fit into arguments. There is at least one.
fn pieces(command: &str) -> impl Iterator<Item = &str> {
    let (first, mut rest) = command.split_at(command.floor_char_boundary(MAX_PIECE_BYTES));
    let more = std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    });
    std::iter::once(first).chain(more)
}

/// Adds a notice if the command was ended, because the state is then unchanged.
fn with_end_notice(starting: Starting) -> Starting {
    let report = |event| {
        let is_cut = matches!(&event, Ok(Event::Ended(end)) if end.reason != EndReason::Exited);
        let notice = is_cut.then(|| Ok(Event::Stderr(format!("[{STATE_UNCHANGED}]\n").into())));
        stream::iter(notice.into_iter().chain([event]))
    };
    starting.map(move |running| Ok(Running::new(running?.flat_map(report).boxed()))).boxed()
}

/// Like [`with_end_notice`], for a cancelled command, which sends no further event.
fn with_cancel_notice(mut output: BashOutput) -> BashOutput {
    if output.exit_code == CANCELLED {
        output.stderr.push(' ');
        output.stderr.push_str(STATE_UNCHANGED);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_pieces_equal_the_command() {
        let command = "é🦀x".repeat(100_000);
        let all: Vec<&str> = pieces(&command).collect();
        assert_eq!(all.concat(), command);
        assert!(all.iter().all(|piece| piece.len() <= MAX_PIECE_BYTES));
        assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_command_that_bash_cannot_run_is_rejected() {
        let words = |command: String| {
            script_of(ShellInput { command: Some(command), restart: None }, 1.0).unwrap_err().to_string()
        };
        assert!(words("x".repeat(MAX_COMMAND_BYTES + 1)).contains("1048576 bytes"));
        assert!(words("a\0b".to_owned()).contains("NUL"));
    }
}
