//! Starts a command, and listens to it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Vercel;
use super::alive::{Alive, MARK};
use super::fault::Fault;
use super::listen::Listener;
use super::wire::StartCommand;
use crate::provider::{Command, Error, Result as Answer, Running, SandboxId, WORKSPACE};

/// Maximum length of a script.
const MAX_SCRIPT_BYTES: usize = 1024 * 1024;

/// Maximum length of a piece of a script. Linux allows no argument of 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 96 * 1024;

/// Runs a script that arrives in pieces, and hides the pieces from it.
const JOIN: &str = "eval \"set --\n$(printf %s \"$@\")\"";

/// Extra time before Vercel ends a command. It only has to do so if this side cannot.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

impl Vercel {
    /// Runs in its own task. The caller may leave before the id of the command is known, and the command must be
    /// ended all the same.
    pub(super) async fn run_script(&self, sandbox: &SandboxId, command: Command) -> Answer<Running> {
        if command.script.len() > MAX_SCRIPT_BYTES {
            let message = format!("a command must be at most {MAX_SCRIPT_BYTES} bytes long");
            return Err(Error::Refused { message });
        }
        if command.script.contains('\0') {
            return Err(Error::Refused { message: "a command must not have NUL characters".to_owned() });
        }
        let (vercel, sandbox) = (self.clone(), sandbox.clone());
        let starting = tokio::spawn(async move { vercel.start(&sandbox, &command).await });
        let listener = starting.await.map_err(|error| Error::Broken(error.into()))??;
        Ok(Running::new(listener.events()))
    }

    async fn start(&self, sandbox: &SandboxId, command: &Command) -> Result<Listener, Fault> {
        let begun = self.in_session(sandbox, |session| {
            let mark = Uuid::new_v4().simple().to_string();
            let request = StartCommand::of(command, &mark);
            Alive::begin(Arc::clone(&self.api), session, mark, request)
        });
        let (alive, lines) = begun.await?;
        Ok(Listener::new(alive, lines, command.timeout))
    }
}

impl StartCommand {
    fn of(command: &Command, mark: &str) -> Self {
        let mut args = vec!["-lc".to_owned()];
        if command.script.len() <= MAX_ARGUMENT_BYTES {
            args.push(command.script.clone());
        } else {
            args.extend([JOIN.to_owned(), "bash".to_owned()]);
            args.extend(pieces(&command.script).map(str::to_owned));
        }
        let own = command.environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            env: own.chain([(MARK.to_owned(), mark.to_owned())]).collect(),
            wait: true,
            logs: true,
            ..Self::bash(args, WORKSPACE, command.timeout + TIMEOUT_SLACK)
        }
    }
}

/// Splits the script into pieces that fit into arguments.
fn pieces(mut script: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = script.split_at(script.floor_char_boundary(MAX_ARGUMENT_BYTES));
        script = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_arguments_equal_the_script() {
        let script = "é🦀x".repeat(100_000);
        let all: Vec<&str> = pieces(&script).collect();
        assert_eq!(all.concat(), script);
        assert!(all.iter().all(|piece| piece.len() <= MAX_ARGUMENT_BYTES));
        assert_eq!(all.len(), script.len().div_ceil(MAX_ARGUMENT_BYTES));
    }
}
