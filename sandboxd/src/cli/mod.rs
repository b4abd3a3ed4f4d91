//! The commands for people: clients of the API like any other.

mod run;

use std::io::{self, Write};
use std::process::ExitCode;

use secrecy::{ExposeSecret, SecretString};

pub use run::{RunArgs, run};

use crate::config::{Config, Fault, Report};
use crate::state_dir;

/// Where the daemon is and how to be let in.
#[derive(Debug, Clone, clap::Args)]
pub struct DaemonArgs {
    /// The daemon's address
    #[arg(long, env = "SANDBOXD_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
}

impl DaemonArgs {
    /// A client with the token of the settings, or else the one the daemon keeps in its state dir.
    fn client(&self, config: &Config) -> anyhow::Result<sandbox_client::Client> {
        let token: SecretString = match &config.admin_token {
            Some(token) => token.clone(),
            None => state_dir::read_token(&config.state_dir)?,
        };
        Ok(sandbox_client::Client::new(&self.url, token.expose_secret())?)
    }
}

/// `sandboxd check-config`: every setting with its source, then every fault.
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

/// One line for each fault.
pub fn write_faults(out: &mut impl Write, faults: &[Fault]) -> io::Result<()> {
    writeln!(out, "sandboxd: {} of the settings cannot be used:", faults.len())?;
    faults.iter().try_for_each(|fault| writeln!(out, "  {fault}"))
}
