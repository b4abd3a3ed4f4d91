//! The section as it is in force: only what was checked.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

use crate::provider::NetworkPolicy;

/// All of `[app.bash_tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashTools {
    /// Where sandboxes are.
    pub provider: Provider,
    /// Who may use the tools.
    pub access: Access,
    /// Whose word for a request's client is believed, 64 at most.
    pub trusted_proxies: Vec<IpNet>,
    /// What is kept of a command's standard output, 200 to 200,000 characters.
    pub max_stdout_chars: usize,
    /// The same of its standard error.
    pub max_stderr_chars: usize,
    /// How long a command may run, 1 s to 300 s.
    pub command_timeout: Duration,
    /// How many sandboxes this app may have at a time, 1 to 10.
    pub max_concurrent_sandboxes: usize,
    /// How long one may be idle, 10 s to 6 h.
    pub idle_ttl: Duration,
    /// What each is like.
    pub sandbox: Sandboxes,
    /// What is in a new one.
    pub seed: Seed,
}

/// Where sandboxes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// In containers of sandboxd.
    Docker(DockerSettings),
    /// At Vercel; its credentials are in the [environment](super::Environment).
    Vercel,
}

/// `[app.bash_tools.docker]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerSettings {
    /// `http` or `https`, without a name, password, query or fragment, and without slashes at the end of its path.
    pub orchestrator_url: Url,
    /// The variable that has sandboxd's token.
    pub admin_token_env: String,
    /// What sandboxes may reach.
    pub network: NetworkPolicy,
    /// Memory of each, 256 to 16,384 MiB.
    pub memory_mb: u64,
}

/// Who may use the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever comes from this machine.
    Localhost,
    /// Whoever has the admin token, also from this machine.
    Lan,
}

/// `[app.bash_tools.sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandboxes {
    /// `node24` or `python3.13` in sandboxd; whatever Vercel has.
    pub runtime: String,
    /// Ports that may be previewed: up to 4, each once.
    pub ports: Vec<u16>,
    /// Processors, 1 to 8.
    pub vcpus: u64,
    /// How long a Vercel sandbox lives, and how long seeding may take, 30 s to 5 h.
    pub timeout: Duration,
}

/// `[app.bash_tools.seed]`: the first files of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seed {
    /// A repository.
    Git(GitSeed),
    /// A directory of this machine.
    Upload(UploadSeed),
    /// Nothing.
    None,
}

/// A repository to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSeed {
    /// `https`, or `http` where `git_allow_http` says so; without a name and password.
    pub url: Url,
    /// Branch, tag or commit; what is no option of git's and no revision expression. `None` is the default branch.
    pub revision: Option<String>,
    /// The variable that has a token for the repository. Never with an `http` URL.
    pub token_env: Option<String>,
    /// Most that may be cloned.
    pub max_bytes: u64,
}

/// A directory to begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSeed {
    /// An absolute path, on this machine.
    pub root: PathBuf,
    /// A glob that paths in it must match.
    pub include: String,
    /// Most that may be uploaded.
    pub max_bytes: u64,
}

impl BashTools {
    /// What sandboxd needs to know; `None` where sandboxes are elsewhere.
    pub fn docker(&self) -> Option<&DockerSettings> {
        match &self.provider {
            Provider::Docker(docker) => Some(docker),
            Provider::Vercel => None,
        }
    }
}

impl DockerSettings {
    /// Whether sandboxd is on this machine, as far as its address tells.
    pub fn is_local(&self) -> bool {
        match self.orchestrator_url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            None => false,
        }
    }
}
