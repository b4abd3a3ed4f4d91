//! `sandboxd mcp`: an MCP server on standard input and output, for hosts that start a program.

use std::process::ExitCode;

use uuid::Uuid;

use super::DaemonArgs;
use crate::config::Config;

/// Serve MCP on standard input and output, for a host that starts programs
#[derive(Debug, Clone, clap::Args)]
pub struct McpArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox the tools use [default: a new one for each process]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Serves until the host closes standard input.
pub async fn mcp(args: McpArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let session = args.session.unwrap_or_else(|| Uuid::new_v4().to_string());
    mcp::stdio(client, session).await?;
    Ok(ExitCode::SUCCESS)
}
