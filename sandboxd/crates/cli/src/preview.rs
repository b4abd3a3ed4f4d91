//! `sandboxd preview`: creates, lists and revokes links to servers in a sandbox.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use sandbox_api::port::{CreateLink, Ports};
use sandbox_api::{LinkId, SandboxId};
use sandbox_client::{Client, Error};

use super::{DaemonArgs, sandboxes, text};
use sandboxd_config::Config;

/// Create a link to a server in a sandbox, or list its ports and links
#[derive(Debug, Clone, clap::Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    name: String,
    /// Port in the sandbox; without it, the ports and links are listed
    port: Option<u16>,
    /// Lifetime of the link, such as 30m or 12h [default: until the sandbox is deleted]
    #[arg(long, value_parser = text::parse_span, requires = "port")]
    ttl: Option<Duration>,
    /// Revoke this link to the port instead of creating one
    #[arg(long, value_name = "LINK", requires = "port", conflicts_with = "ttl")]
    revoke: Option<LinkId>,
    /// Print the API's response as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the URL of the new link, or the list.
pub(crate) async fn preview(args: PreviewArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::require(&client, &args.daemon, &args.name, config).await?.sandbox_id;
    execute(&args, &client, &sandbox).await?.map_err(|error| args.daemon.explain(error, config))?;
    Ok(ExitCode::SUCCESS)
}

async fn execute(args: &PreviewArgs, client: &Client, sandbox: &SandboxId) -> io::Result<Result<(), Error>> {
    let mut out = io::stdout();
    let Some(port) = args.port else {
        return match client.ports(sandbox).await {
            Ok(ports) if args.json => super::write_json(&mut out, &serde_json::json!(ports)).map(Ok),
            Ok(ports) => write_ports(&mut out, &ports).map(Ok),
            Err(error) => Ok(Err(error)),
        };
    };
    if let Some(link) = &args.revoke {
        return Ok(client.revoke_link(sandbox, port, link).await.map(drop));
    }
    let ttl_ms = args.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    match client.create_link(sandbox, port, &CreateLink { ttl_ms, style: None }).await {
        Ok(link) if args.json => super::write_json(&mut out, &serde_json::json!(link)).map(Ok),
        Ok(link) => writeln!(out, "{}", text::printable(&link.url)).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn write_ports(out: &mut impl Write, ports: &Ports) -> io::Result<()> {
    for found in &ports.listening {
        let process = found.process.as_deref().map(text::printable).unwrap_or_default();
        writeln!(out, "{}\tlistens on {}\t{process}", found.port, text::printable(&found.address))?;
    }
    for found in &ports.published {
        writeln!(out, "{}\tpublished\t{}", found.port, text::printable(&found.url))?;
    }
    for link in &ports.links {
        writeln!(out, "{}\t{}\t{}", link.port, link.link_id, text::printable(&link.url))?;
    }
    Ok(())
}
