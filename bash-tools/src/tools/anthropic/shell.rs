//! `bash_20250124`: a shell that remembers.
//!
//! The choice: there is no process that waits between two calls. Each call is a bash of its own, which begins with what the one
//! before left behind. A process that waits would be lost with every parked sandbox, stopped machine and full memory, would need
//! a way in that one provider does not have, and could not be held to the time of one command; and what hangs would hang for good.
//! What a shell leaves behind is a file beside the workspace's own programs, written whole or not at all.
//!
//! Kept are: working directory, `OLDPWD` and the stack of `pushd`; variables with their attributes, and that one was unset;
//! functions; aliases; options of `set` and `shopt`; traps; umask, soft limits, arguments of `set --`, and `$?`. What runs in
//! the background goes on, but is no job of the next call: `jobs`, `wait` and `$!` do not know it. Descriptors of `exec` are not
//! kept. `exit` ends the call and not the shell. A call that is killed, becomes another program, or ends by a trap on EXIT that
//! it has set leaves the shell as it was before, and says so. A trap on ERR runs once more where the last command fails, and what
//! is local to a function that ends the shell stays behind as if it were not. Of two calls at once, one waits for the other.
//!
//! `shell/call.sh` goes round a command from outside, `shell/session.sh` from inside.

use futures::{FutureExt, Stream, StreamExt, stream};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::provider::{EndReason, Event, Running, WORKSPACE};
use crate::tools::bash::{self, Starting, quoted};
use crate::tools::output::CANCELLED;
use crate::tools::{BashOutput, Error, Result, Toolkit};

/// Longest command, in bytes. Linux takes no more than about 2 MiB of arguments.
const MAX_COMMAND_BYTES: usize = 1024 * 1024;

/// Longest piece of a command: Linux takes no argument of 128 KiB.
const MAX_PIECE_BYTES: usize = 96 * 1024;

/// Most that a shell remembers, in bytes. All of it is read for every call.
const MAX_MEMORY_BYTES: usize = 1024 * 1024;

/// How long before its own end a call that waits for another one gives up, so that it can say so.
const SAY_SO_S: f64 = 1.0;

/// The shortest time that a call waits for another one.
const MIN_TURN_S: f64 = 0.5;

const CALL: &str = include_str!("shell/call.sh");
const SESSION: &str = include_str!("shell/session.sh");

const AS_BEFORE: &str = "The shell is as it was before this command.";

/// What the model sends: a command, or the wish for a new shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellInput {
    /// What to run, up to 1 MiB.
    #[serde(default)]
    pub command: Option<String>,
    /// Forget what the shell remembers.
    #[serde(default)]
    pub restart: Option<bool>,
}

impl Toolkit {
    /// Runs a command in the shell that remembers, and tells of it as [`Toolkit::bash`] does. The time that it waits for another
    /// command of this shell is its own.
    pub fn shell(
        &self,
        input: ShellInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        let limits = self.limits();
        let turn_s = (limits.timeout.as_secs_f64() - SAY_SO_S).max(MIN_TURN_S);
        let script = match script_of(input, turn_s) {
            Ok(script) => script,
            Err(error) => return stream::iter([Err(error)]).left_stream(),
        };
        let starting = telling(self.start_script(script));
        let outputs = bash::stream(starting, self.pace(), limits.output, cancel.clone());
        let told = move |output| if cancel.is_cancelled() { told_of_cancel(output) } else { output };
        outputs.map(move |output| output.map(&told)).right_stream()
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

/// One act of `call.sh`, in the environment that every command has.
fn call(pieces: &[String], turn_s: f64, act: &str) -> String {
    let (environment, session, command) = (bash::script(""), quoted(SESSION), pieces.join(" "));
    format!(
        "{environment}directory={WORKSPACE}/.remcochat turn_s={turn_s:.1} limit={MAX_MEMORY_BYTES}\n\
         session={session}\ncommand=({command})\n{CALL}{act}\n"
    )
}

/// The command in pieces that are arguments, of which there is one at least.
fn pieces(command: &str) -> impl Iterator<Item = &str> {
    let (first, mut rest) = command.split_at(command.floor_char_boundary(MAX_PIECE_BYTES));
    let more = std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    });
    std::iter::once(first).chain(more)
}

/// The command, with a word where it was ended and nobody in the sandbox can say what that means for the shell.
fn telling(starting: Starting) -> Starting {
    let tell = |event| {
        let is_cut = matches!(&event, Ok(Event::Ended(end)) if end.reason != EndReason::Exited);
        let word = is_cut.then(|| Ok(Event::Stderr(format!("[{AS_BEFORE}]\n").into())));
        stream::iter(word.into_iter().chain([event]))
    };
    starting.map(move |running| Ok(Running::new(running?.flat_map(tell).boxed()))).boxed()
}

/// The same where it was cancelled, of which no event tells.
fn told_of_cancel(mut output: BashOutput) -> BashOutput {
    if output.exit_code == CANCELLED {
        output.stderr.push(' ');
        output.stderr.push_str(AS_BEFORE);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_its_pieces() {
        let command = "é🦀x".repeat(100_000);
        let all: Vec<&str> = pieces(&command).collect();
        assert_eq!(all.concat(), command);
        assert!(all.iter().all(|piece| piece.len() <= MAX_PIECE_BYTES));
        assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn what_bash_cannot_take_is_refused() {
        let words = |command: String| {
            script_of(ShellInput { command: Some(command), restart: None }, 1.0).unwrap_err().to_string()
        };
        assert!(words("x".repeat(MAX_COMMAND_BYTES + 1)).contains("1048576 bytes"));
        assert!(words("a\0b".to_owned()).contains("NUL"));
    }
}
