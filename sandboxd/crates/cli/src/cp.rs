//! `sandboxd cp`: copies files and directories between this machine and a sandbox, as cp(1) does.
//!
//! A directory is copied as one archive. [`upload`] packs it and [`download`] unpacks it, which treats everything from a
//! sandbox as hostile. [`location`] parses the arguments.

mod download;
mod location;
mod remote_path;
mod upload;

use std::process::ExitCode;

use anyhow::Context;

use self::location::Location;
use self::remote_path::RemotePath;
pub(super) use self::upload::archive;
use super::{DaemonArgs, sandboxes};
use sandboxd_config::Config;

/// Copy files and directories to a sandbox or from one
#[derive(Debug, Clone, clap::Args)]
pub struct CpArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Sandbox of `:PATH`, for session keys and paths whose colons are ambiguous
    #[arg(long, short, value_name = "ID|SESSION")]
    session: Option<String>,
    /// Do not draw a progress bar
    #[arg(long, short)]
    quiet: bool,
    /// A local path, `SESSION:PATH`, or `-` for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// A local path, `SESSION:PATH`, or `-` for standard output
    #[arg(value_name = "TO")]
    to: String,
}

/// Copies. A new file or directory appears complete or not at all. An existing local directory receives the files one by
/// one, and keeps the files that were copied before an error.
pub(crate) async fn cp(args: CpArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let session = args.session.as_deref();
    let (from, to) = (Location::parse(&args.from, session), Location::parse(&args.to, session));
    let show_progress = !args.quiet;
    match (from, to) {
        (Location::Local(from), Location::Remote { name, path }) => {
            upload::copy(&from, &remote_path(&args, config, name, path).await?, show_progress).await?;
        }
        (Location::Remote { name, path }, Location::Local(to)) => {
            download::copy(&remote_path(&args, config, name, path).await?, &to, show_progress).await?;
        }
        (Location::Local(_), Location::Local(_)) => {
            anyhow::bail!(
                "both paths are on this machine; write the sandbox's as SESSION:PATH, such as chat:1:src/main.rs"
            )
        }
        (Location::Remote { .. }, Location::Remote { .. }) => {
            anyhow::bail!("both paths are in a sandbox; copy to this machine first")
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn remote_path(args: &CpArgs, config: &Config, name: &str, path: &str) -> anyhow::Result<RemotePath> {
    let client = args.daemon.client(config)?;
    let found = sandboxes::find(&client, name).await.map_err(|error| args.daemon.explain(error, config))?;
    let sandbox = found.with_context(|| format!("{name}: no such sandbox"))?.sandbox_id;
    Ok(RemotePath { client, sandbox, path: path.to_owned() })
}
