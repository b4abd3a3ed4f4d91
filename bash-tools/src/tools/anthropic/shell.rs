//! `bash_20250124`: a shell that remembers.
//!
//! There is no process that waits between two calls, which a parked sandbox or a restarted app would lose. Each call is a shell of
//! its own that begins with what the one before ended with: working directory, variables, functions, aliases and options. What
//! runs in the background goes on. A shell that is killed, or sets a trap on EXIT, leaves things as they were before it.

use futures::{Stream, StreamExt, stream};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::provider::WORKSPACE;
use crate::tools::bash::{self, quoted};
use crate::tools::{BashOutput, Error, Result, Toolkit};

/// What the model sends: a command, or the wish for a new shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellInput {
    /// What to run.
    #[serde(default)]
    pub command: Option<String>,
    /// Forget what the shell remembers.
    #[serde(default)]
    pub restart: Option<bool>,
}

impl Toolkit {
    /// Runs a command in the shell that remembers, and tells of it as [`Toolkit::bash`] does.
    pub fn shell(
        &self,
        input: ShellInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        let script = match (input.restart, input.command) {
            (Some(true), None) => restart(),
            (None | Some(false), Some(command)) => remembering(&command),
            _ => {
                let problem = "or `restart` must be given, and not both".to_owned();
                return stream::iter([Err(Error::BadInput { field: "command", problem })]).left_stream();
            }
        };
        let limits = self.limits();
        bash::stream(self.start_script(script), limits.timeout, limits.output, cancel).right_stream()
    }
}

fn memory() -> String {
    format!("{WORKSPACE}/.remcochat/shell")
}

fn restart() -> String {
    format!("rm -f {} && echo 'tool has been restarted.'", memory())
}

/// The command in a shell that takes over and hands on. Its own names begin with `__`, and are not handed on.
fn remembering(command: &str) -> String {
    let (memory, command) = (memory(), quoted(command));
    let own = bash::script(&format!("__command={command}"));
    format!("{own}__memory={memory}\n{HAND_ON}\n{TAKE_OVER}\neval \"$__command\"\n")
}

/// What cannot be set, or changes by itself, is left out; so are the names of this script.
const HAND_ON: &str = r#"__hand_on() {
  local options name
  options=$(set +o; shopt -p)
  set +euxo pipefail
  {
    for name in $(compgen -v); do
      case $name in
        __*|BASH*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|PIPESTATUS|PPID|RANDOM|SECONDS|SHELLOPTS|SRANDOM|UID|_|options|name) continue ;;
      esac
      [[ $(declare -p "$name") == 'declare -'*([!\ ])r* ]] || declare -p "$name"
    done
    for name in $(compgen -A function); do [[ $name == __* ]] || declare -f "$name"; done
    alias -p
    umask -p
    printf 'cd -- %q\n%s\n' "$PWD" "$options"
  } >"$__memory.$BASHPID" 2>/dev/null && mv -f -- "$__memory.$BASHPID" "$__memory"
}
shopt -s extglob"#;

const TAKE_OVER: &str = r#"mkdir -p -- "${__memory%/*}"
[[ ! -r $__memory ]] || . "$__memory" 2>/dev/null
trap __hand_on EXIT"#;
