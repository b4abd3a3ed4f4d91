//! The commands of the command line. They are ordinary clients of the API.

mod accept_engine;
mod action;
mod attachment;
mod audit;
mod client_command;
mod command;
mod cp;
mod dependency;
mod detach;
mod diff;
mod doctor;
mod exec;
pub mod exit_code;
mod fsck;
mod inspect;
mod interrupts;
mod logs;
mod mcp_config;
mod mcp_server;
mod network;
mod orphan;
mod output;
mod preview;
mod progress;
mod project;
mod prune;
mod ps;
mod quota;
mod raw_mode;
mod repo;
mod run;
mod sandboxes;
mod saved_output;
mod shell;
mod snapshot;
mod snapshot_file;
mod snapshots;
mod stop;
mod suggestion;
mod table;
mod text;
mod trial;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use sandbox_api::ErrorCode;
use sandbox_client::{Client, Error};
use secrecy::{ExposeSecret, SecretString};

pub use client_command::ClientCommand;
pub use doctor::{DoctorArgs, doctor};
pub use output::is_broken_pipe;
pub use suggestion::{SYNONYMS, with_safe_suggestion};
pub use text::printable;

use sandboxd_config::{Config, Fault, Report};

/// Address of the daemon.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DaemonArgs {
    /// URL of the daemon [default: SANDBOXD_URL, or the address that a daemon on this machine would use]
    #[arg(long, value_parser = sandboxd_config::daemon_url)]
    url: Option<String>,
}

impl DaemonArgs {
    /// A client with the token from the settings, or else the token that the daemon keeps in its state dir.
    fn client(&self, config: &Config) -> anyhow::Result<Client> {
        let token: SecretString = match &config.admin_token {
            Some(token) => token.clone(),
            None => sandboxd_state_dir::read_token(&config.state_dir).context(
                "no token: set SANDBOXD_ADMIN_TOKEN to the daemon's token, or SANDBOXD_STATE_DIR to its state dir",
            )?,
        };
        Ok(Client::new(self.url(config), token.expose_secret())?)
    }

    fn url<'a>(&'a self, config: &'a Config) -> &'a str {
        self.url.as_deref().unwrap_or(&config.url)
    }

    /// Adds to the error of a failed call what to do about it.
    fn explain(&self, error: Error, config: &Config) -> anyhow::Error {
        let url = self.url(config);
        let advice = match &error {
            Error::Broken(broken) if broken.is_connect() => {
                format!(
                    "no daemon listens at {url}; start one with `sandboxd serve`, or set SANDBOXD_URL to another"
                )
            }
            Error::Deadline { .. } => {
                format!(
                    "the daemon at {url} accepts connections but does not answer; see its log (`journalctl -u sandboxd`)"
                )
            }
            Error::Refused { body, .. } if body.code == ErrorCode::Unauthenticated => {
                format!("the daemon at {url} has a different token; set SANDBOXD_ADMIN_TOKEN to it")
            }
            _ => return error.into(),
        };
        anyhow::Error::new(error).context(advice)
    }
}

/// Exit code for a failed command: 127 or 126 if a program could not be started, as in a shell, otherwise 1.
pub fn exit_code_of(error: &anyhow::Error) -> u8 {
    let client_error = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    client_error.and_then(command::start_failure_code).unwrap_or(exit_code::FAILURE)
}

/// `sandboxd check-config`: prints every setting with its source, then every error.
pub fn check_config(config: &Result<Config, Vec<Fault>>, report: &Report) -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    write!(out, "{report}")?;
    match config {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(faults) => {
            write_faults(&mut io::stderr().lock(), faults)?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Writes one line for each fault.
pub fn write_faults(out: &mut impl Write, faults: &[Fault]) -> io::Result<()> {
    writeln!(out, "sandboxd: invalid settings: {}", faults.len())?;
    faults.iter().try_for_each(|fault| writeln!(out, "  {fault}"))
}

/// `sandboxd completions`: prints the completion script for a shell.
pub fn completions(shell: clap_complete::Shell, command: &mut clap::Command) -> io::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "sandboxd", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

fn write_json(out: &mut impl Write, value: &serde_json::Value) -> io::Result<()> {
    // Values such as session keys may contain terminal control sequences. Line feeds occur only between the values.
    format!("{value:#}").lines().try_for_each(|line| writeln!(out, "{}", log_text::escape_json(line)))
}
