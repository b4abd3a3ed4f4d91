//! `sandboxd inspect`: everything that the API reports of a sandbox.

use std::io;
use std::process::ExitCode;

use super::{DaemonArgs, sandboxes};
use crate::config::Config;

/// Print sandboxes as the API reports them, in JSON
#[derive(Debug, Clone, clap::Args)]
pub struct InspectArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Ids (`sbx_…`) or session keys (`chat:…`)
    #[arg(required = true, value_name = "ID|SESSION")]
    names: Vec<String>,
}

/// Prints the sandboxes in the order in which they are named; an error if one does not exist.
pub async fn inspect(args: InspectArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let mut found = Vec::new();
    for name in &args.names {
        let sandbox = sandboxes::named(&client, &args.daemon, name, config).await?;
        // A list leaves out usage and posture.
        let whole = client.get(&sandbox.sandbox_id).await;
        found.push(whole.map_err(|error| args.daemon.explain(error, config))?);
    }
    super::write_json(&mut io::stdout().lock(), &serde_json::json!({ "sandboxes": found }))?;
    Ok(ExitCode::SUCCESS)
}
