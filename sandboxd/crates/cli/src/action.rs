//! The common part of `stop`, `park` and `prune`: the confirmation, the action on each sandbox, and the report.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::Sandbox;
use sandbox_client::{Client, Error};
use serde::Serialize;

use super::text;

/// Action on a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Delete,
    /// Deletes the sandbox unless it is in use again.
    Prune,
    Park {
        /// Whether a sandbox with running commands is parked too.
        force: bool,
    },
}

/// Result of the action on one sandbox.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// The name that the user gave.
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_key: Option<String>,
    /// Whether there was no error. A spared sandbox is not an error.
    ok: bool,
    /// Why the sandbox was kept, if the request says to keep it in that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    spared: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Outcome {
    pub(super) fn missing(name: &str) -> Self {
        Self::without_sandbox(name, "no such sandbox".into())
    }

    /// The lookup of the sandbox failed.
    pub(super) fn failed(name: &str, error: &anyhow::Error) -> Self {
        Self::without_sandbox(name, format!("{error:#}"))
    }

    fn without_sandbox(name: &str, error: String) -> Self {
        Self {
            name: name.into(),
            sandbox_id: None,
            session_key: None,
            ok: false,
            spared: None,
            error: Some(error),
        }
    }

    /// The sandbox was kept, because it is in use again.
    pub(super) fn spared(name: &str, sandbox: &Sandbox) -> Self {
        Self { spared: Some("in use again"), ..Self::new(name, sandbox, Ok(())) }
    }

    fn new(name: &str, sandbox: &Sandbox, result: Result<(), Error>) -> Self {
        Self {
            name: name.into(),
            sandbox_id: Some(sandbox.sandbox_id.to_string()),
            session_key: Some(sandbox.session_key.clone()),
            ok: result.is_ok(),
            spared: None,
            error: result.err().map(|error| error.to_string()),
        }
    }
}

impl Action {
    /// Applies the action to one sandbox.
    pub(super) async fn apply(self, client: &Client, name: &str, sandbox: &Sandbox) -> Outcome {
        let result = match self {
            Self::Delete => client.delete(&sandbox.sandbox_id).await,
            Self::Prune => match client.delete_if_parked(&sandbox.sandbox_id).await {
                Err(error) if error.code() == Some(ErrorCode::WrongState) => {
                    return Outcome::spared(name, sandbox);
                }
                other => other,
            },
            Self::Park { force } => client.park(&sandbox.sandbox_id, force).await,
        };
        Outcome::new(name, sandbox, result.map(drop))
    }

    fn past_tense(self) -> &'static str {
        match self {
            Self::Delete | Self::Prune => "deleted",
            Self::Park { .. } => "parked",
        }
    }

    /// Prints each outcome. The exit code is 1 if one of them failed.
    pub(super) fn report(self, outcomes: &[Outcome], json: bool) -> io::Result<ExitCode> {
        if json {
            super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "results": outcomes }))?;
        } else {
            outcomes.iter().try_for_each(|outcome| self.report_one(outcome))?;
        }
        let ok = outcomes.iter().all(|outcome| outcome.ok);
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn report_one(self, outcome: &Outcome) -> io::Result<()> {
        let name = text::printable(&outcome.name);
        match &outcome.error {
            None => writeln!(io::stdout(), "{name}: {}", outcome.spared.unwrap_or(self.past_tense())),
            Some(error) => writeln!(io::stderr(), "sandboxd: {name}: {}", text::printable(error)),
        }
    }
}

/// Whether there is a terminal for a confirmation.
pub(super) fn can_confirm() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation. Any answer but `y` or `yes` is a no.
pub(super) fn confirm(question: &str) -> io::Result<bool> {
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_or_yes_confirms() {
        assert!(["y", "Y\n", " yes\n", "YES"].into_iter().all(is_yes));
        assert!(["", "\n", "n\n", "yess", "yes please", "1"].into_iter().all(|answer| !is_yes(answer)));
    }
}
