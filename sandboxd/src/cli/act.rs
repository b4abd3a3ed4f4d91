//! What `stop`, `park` and `prune` have in common: to ask, to act on each sandbox, and to tell.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::Sandbox;
use sandbox_client::{Client, Error};
use serde::Serialize;

use super::text;

/// What is done to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Delete,
    /// Delete unless it is in use again.
    Prune,
    Park {
        /// Also one in which commands run.
        force: bool,
    },
}

/// What became of one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// As it was named.
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_key: Option<String>,
    /// Nothing went wrong; a spared one is as it should be.
    ok: bool,
    /// Why it was left as it is, where that is what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    spared: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Outcome {
    pub(super) fn missing(name: &str) -> Self {
        Self::without_sandbox(name, "there is no such sandbox".into())
    }

    /// It could not be looked up.
    pub(super) fn failed(name: &str, why: &anyhow::Error) -> Self {
        Self::without_sandbox(name, format!("{why:#}"))
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

    /// It was to be left alone if somebody uses it again, and somebody does.
    pub(super) fn spared(name: &str, sandbox: &Sandbox) -> Self {
        Self { spared: Some("in use again"), ..Self::of(name, sandbox, Ok(())) }
    }

    fn of(name: &str, sandbox: &Sandbox, done: Result<(), Error>) -> Self {
        Self {
            name: name.into(),
            sandbox_id: Some(sandbox.sandbox_id.to_string()),
            session_key: Some(sandbox.session_key.clone()),
            ok: done.is_ok(),
            spared: None,
            error: done.err().map(|error| error.to_string()),
        }
    }
}

impl Act {
    /// Acts on one sandbox.
    pub(super) async fn on(self, client: &Client, name: &str, sandbox: &Sandbox) -> Outcome {
        let done = match self {
            Self::Delete => client.delete(&sandbox.sandbox_id).await,
            Self::Prune => match client.delete_if_parked(&sandbox.sandbox_id).await {
                Err(error) if error.code() == Some(ErrorCode::WrongState) => {
                    return Outcome::spared(name, sandbox);
                }
                other => other,
            },
            Self::Park { force } => client.park(&sandbox.sandbox_id, force).await,
        };
        Outcome::of(name, sandbox, done.map(drop))
    }

    fn done(self) -> &'static str {
        match self {
            Self::Delete | Self::Prune => "deleted",
            Self::Park { .. } => "parked",
        }
    }

    /// Tells each outcome; the exit code is 1 where one failed.
    pub(super) fn tell(self, outcomes: &[Outcome], json: bool) -> io::Result<ExitCode> {
        if json {
            super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "results": outcomes }))?;
        } else {
            outcomes.iter().try_for_each(|outcome| self.tell_one(outcome))?;
        }
        let ok = outcomes.iter().all(|outcome| outcome.ok);
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn tell_one(self, outcome: &Outcome) -> io::Result<()> {
        let name = text::printable(&outcome.name);
        match &outcome.error {
            None => writeln!(io::stdout(), "{name}: {}", outcome.spared.unwrap_or(self.done())),
            Some(error) => writeln!(io::stderr(), "sandboxd: {name}: {}", text::printable(error)),
        }
    }
}

/// Whether somebody sits at a terminal who can be asked.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and takes anything but `y` or `yes` for a no.
pub(super) fn ask(question: &str) -> io::Result<bool> {
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
    fn only_a_yes_is_a_yes() {
        assert!(["y", "Y\n", " yes\n", "YES"].into_iter().all(is_yes));
        assert!(["", "\n", "n\n", "yess", "yes please", "1"].into_iter().all(|answer| !is_yes(answer)));
    }
}
