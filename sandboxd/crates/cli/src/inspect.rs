//! `sandboxd inspect`: prints everything that the API reports about sandboxes.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{DaemonArgs, sandboxes};
use sandboxd_config::Config;

/// Print sandboxes as the API reports them, in JSON
#[derive(Debug, Clone, clap::Args)]
pub struct InspectArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Ids (`sbx_…`) or session keys (`chat:…`)
    #[arg(required = true, value_name = "ID|SESSION")]
    names: Vec<String>,
}

/// Prints the sandboxes in the given order, then an error for each name without a sandbox.
pub(crate) async fn inspect(args: InspectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let explain = |error| args.daemon.explain(error, config);
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in &args.names {
        match sandboxes::find(&client, name).await.map_err(explain)? {
            // Lists do not contain usage and posture.
            Some(sandbox) => found.push(client.get(&sandbox.sandbox_id).await.map_err(explain)?),
            None => missing.push(name),
        }
    }
    super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "sandboxes": found }))?;
    for name in &missing {
        writeln!(io::stderr(), "sandboxd: {}", sandboxes::missing(name))?;
    }
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
