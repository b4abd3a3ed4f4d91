//! `sandboxd network`: shows or changes a sandbox's network policy, lists its denials and allows a denied host.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_api::DenialId;
use sandbox_api::network::{AllowScope, DenialAllowed, DenialList};
use sandbox_api::sandbox::Network;

use super::{DaemonArgs, sandboxes, text};
use sandboxd_config::Config;

/// Show or change the network policy of a sandbox; hosts given with --allow replace the current list
#[derive(Debug, Clone, clap::Args)]
pub struct NetworkArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Id (`sbx_…`) or session key (`chat:…`)
    #[arg(value_name = "ID|SESSION")]
    name: String,
    /// New mode: default, allowlist, none or open; without it, the policy and its denials are shown
    mode: Option<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Allow the host of a denial (`den_…`), for as long as the sandbox exists
    #[arg(long, value_name = "DENIAL", conflicts_with_all = ["mode", "allow"])]
    allow_denied: Option<DenialId>,
    /// Allow it for one use only
    #[arg(long, requires = "allow_denied")]
    once: bool,
    /// Print the API's responses as JSON
    #[arg(long)]
    json: bool,
}

/// Hosts of a network policy.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct PolicyArgs {
    /// Allowed host, such as example.com, *.example.com or example.com:8443; implies the mode allowlist
    #[arg(long, value_name = "HOST")]
    allow: Vec<String>,
}

impl PolicyArgs {
    /// The policy with this mode; `None` if neither mode nor hosts are given.
    pub(super) fn network(&self, mode: Option<String>) -> Option<Network> {
        let has_hosts = !self.allow.is_empty();
        let mode = mode.or_else(|| has_hosts.then(|| "allowlist".to_owned()))?;
        Some(Network { mode: Some(mode), allow: has_hosts.then(|| self.allow.clone()) })
    }
}

/// Changes the policy if one is given, and prints the current one.
pub(crate) async fn network(args: NetworkArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let client = args.daemon.client(config)?;
    let sandbox = sandboxes::require(&client, &args.daemon, &args.name, config).await?;
    let explain = |error| args.daemon.explain(error, config);
    if let Some(denial) = &args.allow_denied {
        let scope = if args.once { AllowScope::Once } else { AllowScope::Sandbox };
        let allowed = client.allow_denied(&sandbox.sandbox_id, denial, scope).await.map_err(explain)?;
        return write_allowed(&allowed, args.json);
    }
    let network = match args.policy.network(args.mode.clone()) {
        Some(wanted) => client.change_network(&sandbox.sandbox_id, &wanted).await.map_err(explain)?,
        None => sandbox.network,
    };
    let denials = client.denials(&sandbox.sandbox_id).await.map_err(explain)?;
    let mut out = io::stdout().lock();
    if args.json {
        let answer = serde_json::json!({ "network": network, "denials": denials.denials });
        super::write_json(&mut out, &answer)?;
    } else {
        write_policy(&mut out, &network, &denials)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_allowed(allowed: &DenialAllowed, json: bool) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    if json {
        super::write_json(&mut out, &serde_json::json!(allowed))?;
    } else {
        let rule = text::printable(&allowed.rule);
        match allowed.until {
            Some(until) => writeln!(out, "allowed\t{rule}\tonce, until {until}")?,
            None => writeln!(out, "allowed\t{rule}")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_policy(out: &mut impl Write, network: &Network, denials: &DenialList) -> io::Result<()> {
    writeln!(out, "mode\t{}", text::printable(network.mode.as_deref().unwrap_or_default()))?;
    for host in network.allow.iter().flatten() {
        writeln!(out, "allow\t{}", text::printable(host))?;
    }
    for denial in &denials.denials {
        let host = text::printable(&denial.host);
        let id = denial.id.as_ref().map_or("", DenialId::as_str);
        writeln!(out, "denied\t{host}:{}\t{} times\t{id}", denial.port, denial.count)?;
    }
    Ok(())
}
