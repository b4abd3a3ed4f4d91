//! `sandboxd cp`: files and directories between this machine and a sandbox, as cp(1) would have it.
//!
//! A directory goes as one archive, packed or unpacked on this side by [`up`] and [`down`]; what comes from a sandbox is
//! hostile there too. [`place`] says what a name means, [`progress`] draws the bar.

mod down;
mod place;
mod progress;
mod remote;
mod up;

use std::process::ExitCode;

use anyhow::Context;

use self::place::Place;
use self::remote::Remote;
use super::{DaemonArgs, sandboxes};
use crate::config::Config;

/// Copy files and directories to a sandbox or from one
#[derive(Debug, Clone, clap::Args)]
pub struct CpArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Whose sandbox `:PATH` means, where a session key or path has colons that mislead
    #[arg(long, short, value_name = "ID|SESSION")]
    session: Option<String>,
    /// Draw no progress bar
    #[arg(long, short)]
    quiet: bool,
    /// A path here, `SESSION:PATH`, or `-` for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// A path here, `SESSION:PATH`, or `-` for standard output
    #[arg(value_name = "TO")]
    to: String,
}

/// Copies. What is new appears whole or not at all; a directory of this machine that is there already takes up file by
/// file, and keeps what it took where that fails.
pub async fn cp(args: CpArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let session = args.session.as_deref();
    let (from, to) = (Place::parse(&args.from, session), Place::parse(&args.to, session));
    let draw = !args.quiet;
    match (from, to) {
        (Place::Here(from), Place::There { name, path }) => {
            up::copy(&from, &remote(&args, config, name, path).await?, draw).await?;
        }
        (Place::There { name, path }, Place::Here(to)) => {
            down::copy(&remote(&args, config, name, path).await?, &to, draw).await?;
        }
        (Place::Here(_), Place::Here(_)) => {
            anyhow::bail!(
                "neither is in a sandbox: write that one as SESSION:PATH, such as chat:1:src/main.rs"
            )
        }
        (Place::There { .. }, Place::There { .. }) => {
            anyhow::bail!("both are in a sandbox; copy to this machine first")
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn remote(args: &CpArgs, config: &Config, name: &str, path: &str) -> anyhow::Result<Remote> {
    let client = args.daemon.client(config)?;
    let found = sandboxes::find(&client, name).await.map_err(|error| args.daemon.explain(error, config))?;
    let sandbox = found.with_context(|| format!("{name}: there is no such sandbox"))?.sandbox_id;
    Ok(Remote { client, sandbox, path: path.to_owned() })
}
