//! What an app does before and after the commands of its tools.

use std::fmt;

use async_trait::async_trait;

use super::{BashOutput, PythonOutput, RUNNING};
use crate::session::ChatKey;

/// Hooks around the commands of the model: those of `bash` and of the Anthropic shell, and the code of `python`. They are the
/// same for every provider. Commands of this crate itself, such as those that seed a workspace, have none.
///
/// Python code can start programs, and read and write the same files. So an app with `python` and a hook around commands
/// usually needs one around code too.
///
/// ```
/// use bash_tools::session::ChatKey;
/// use bash_tools::tools::{BashOutput, CommandHooks};
///
/// #[derive(Debug)]
/// struct Guard {
///     secret: String,
/// }
///
/// #[async_trait::async_trait]
/// impl CommandHooks for Guard {
///     async fn before(&self, _: &ChatKey, command: String) -> Result<String, String> {
///         match command.contains("git push") {
///             true => Err("pushing is not allowed".into()),
///             false => Ok(format!("set -o pipefail\n{command}")),
///         }
///     }
///
///     fn after(&self, _: &ChatKey, mut output: BashOutput) -> BashOutput {
///         output.stdout = output.stdout.replace(&self.secret, "[secret]");
///         output.stderr = output.stderr.replace(&self.secret, "[secret]");
///         output
///     }
/// }
/// ```
#[async_trait]
pub trait CommandHooks: fmt::Debug + Send + Sync {
    /// Returns the command to run in place of the model's, or the reason why none runs, which the model gets as an error.
    /// Called once for each call of a tool. Its time does not count against the command's time limit.
    async fn before(&self, chat: &ChatKey, command: String) -> Result<String, String> {
        let _ = chat;
        Ok(command)
    }

    /// Returns the value to show in place of `output`. Called for each value, also while the command runs. A value is
    /// complete: its text is all of the output that is kept so far, which may end within a word. The exit code of a
    /// running command stays [`RUNNING`], and no other becomes it.
    fn after(&self, chat: &ChatKey, output: BashOutput) -> BashOutput {
        let _ = chat;
        output
    }

    /// Returns the Python code to run in place of the model's, or the reason why none runs, as [`before`](Self::before).
    async fn before_code(&self, chat: &ChatKey, code: String) -> Result<String, String> {
        let _ = chat;
        Ok(code)
    }

    /// Returns the value to show in place of `output` of Python code, as [`after`](Self::after). The status stays as it is.
    fn after_code(&self, chat: &ChatKey, output: PythonOutput) -> PythonOutput {
        let _ = chat;
        output
    }
}

/// Returns what the hook makes of the output of code.
pub(super) fn code_shown(hooks: &dyn CommandHooks, chat: &ChatKey, output: PythonOutput) -> PythonOutput {
    let status = output.status;
    PythonOutput { status, ..hooks.after_code(chat, output) }
}

/// Returns what the hook makes of `output`.
pub(super) fn shown(hooks: &dyn CommandHooks, chat: &ChatKey, output: BashOutput) -> BashOutput {
    let exit_code = output.exit_code;
    let mut shown = hooks.after(chat, output);
    if exit_code == RUNNING || shown.exit_code == RUNNING {
        shown.exit_code = exit_code;
    }
    shown
}
