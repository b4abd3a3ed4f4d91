//! `sandboxd mcp`: an MCP server on standard input and output, for hosts that start a program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use toolbox::{HostRoot, Profile};
use uuid::Uuid;

use super::DaemonArgs;
use super::mcp_config::{Host, print_config};
use crate::config::Config;

/// Serve MCP on standard input and output, for a host that starts programs
#[derive(Debug, Clone, clap::Args)]
pub struct McpArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Session whose sandbox the tools use [default: a new one for each process]
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Set of tools
    #[arg(long, default_value = Profile::Default.name(), value_parser = profiles())]
    profile: Profile,
    /// Directory from and to which the model may copy files, with the tools `upload` and `download`
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the configuration of a host that uses this server, and do nothing else
    #[arg(long, value_name = "HOST", conflicts_with_all = ["session", "root"])]
    print_config: Option<Host>,
}

/// Serves until the host closes standard input.
pub async fn mcp(args: McpArgs, config: &Config) -> anyhow::Result<ExitCode> {
    if let Some(host) = args.print_config {
        print_config(host, args.daemon.url(config), args.profile)?;
        return Ok(ExitCode::SUCCESS);
    }
    let root = match &args.root {
        Some(path) => {
            let open = HostRoot::open(path);
            Some(open.with_context(|| format!("the directory {} of --root cannot be used", path.display()))?)
        }
        None => None,
    };
    let session = args.session.unwrap_or_else(|| Uuid::new_v4().to_string());
    let client = args.daemon.client(config)?;
    mcp::stdio(client, mcp::Options { session, profile: args.profile, root }).await?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the name of a profile.
fn profiles() -> impl clap::builder::TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| Profile::of_name(&name).unwrap_or_default())
}
