//! `sandboxd mcp`: an MCP server on standard input and output, for hosts that start a program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use toolbox::{HostRoot, Profile};
use uuid::Uuid;

use super::DaemonArgs;
use super::command::variables;
use super::mcp_config::{Host, print_config};
use sandboxd_config::Config;

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
    #[command(flatten)]
    wrap: WrapArgs,
}

/// A server of a third party
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Third-party server")]
struct WrapArgs {
    /// Run the MCP server after `--` in a sandbox and serve its tools
    #[arg(long, requires = "command", conflicts_with_all = ["profile", "root", "print_config"])]
    wrap: bool,
    /// Secret environment variable of the server; `NAME` alone passes on the value from this environment. The server
    /// gets a sandbox of its own
    #[arg(long, short, value_name = "NAME[=VALUE]", requires = "wrap")]
    env: Vec<String>,
    /// Let each start download the newest version of the server's package
    #[arg(long, requires = "wrap")]
    unpinned: bool,
    /// Approve the tool list with this digest, after it has changed
    #[arg(long, value_name = "SHA256", requires = "wrap")]
    tools_hash: Option<String>,
    /// File that stores versions and approved tools [default: sandboxd/mcp-pins.json in XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, value_name = "FILE", requires = "wrap")]
    pins: Option<PathBuf>,
    /// Let the server ask the user
    #[arg(long, requires = "wrap")]
    allow_elicitation: bool,
    /// Let the server use the host's model
    #[arg(long, requires = "wrap")]
    allow_sampling: bool,
    /// Program of the server and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "wrap")]
    command: Vec<String>,
}

impl WrapArgs {
    fn options(self, session: String) -> anyhow::Result<mcp::WrapOptions> {
        Ok(mcp::WrapOptions {
            command: self.command,
            session,
            env: secrets(&self.env, |name| std::env::var(name).ok())?,
            unpinned: self.unpinned,
            tools_hash: self.tools_hash,
            pins: self.pins.or_else(default_pins),
            allow_elicitation: self.allow_elicitation,
            allow_sampling: self.allow_sampling,
        })
    }
}

/// The variables of the server. Unlike for a command, a name that is not set here is an error. The server would start
/// without its secret, and in a sandbox that it shares.
fn secrets(
    given: &[String],
    value_here: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let found = variables(given, value_here);
    match given.iter().find(|text| !text.contains('=') && !found.contains_key(*text)) {
        Some(name) => anyhow::bail!("{name} of --env is not set here"),
        None => Ok(found),
    }
}

/// The user's own file for versions and approved tools. None if there is no home directory.
fn default_pins() -> Option<PathBuf> {
    let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = dir("XDG_STATE_HOME").or_else(|| dir("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("sandboxd/mcp-pins.json"))
}

/// Serves until the host closes standard input.
pub(crate) async fn mcp(args: McpArgs, config: &Config) -> anyhow::Result<ExitCode> {
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
    if args.wrap.wrap {
        mcp::wrap(client, args.wrap.options(session)?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    mcp::stdio(client, mcp::Options { session, profile: args.profile, root }).await?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the name of a profile.
fn profiles() -> impl clap::builder::TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| Profile::of_name(&name).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_not_set_is_an_error() {
        let value_here = |name: &str| (name == "KEY").then(|| "here".to_owned());
        let of = |given: [&str; 2]| secrets(&given.map(str::to_owned), value_here);
        assert_eq!(of(["KEY", "EMPTY="]).unwrap().len(), 2);
        assert_eq!(of(["KEY", "TOKEN"]).unwrap_err().to_string(), "TOKEN of --env is not set here");
    }
}
