//! Effective settings of the section. All values are checked.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use url::{Host, Url};

use crate::provider::NetworkPolicy;

/// Name of the section in the chat app's file.
pub(super) const SECTION: &str = "app.bash_tools";

/// All of `[app.bash_tools]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BashTools {
    /// Provider of the sandboxes.
    pub provider: Provider,
    /// Who may use the tools.
    pub access: Access,
    /// Trusted proxies, at most 64. Their reports about a request's client are accepted.
    pub trusted_proxies: Vec<IpNet>,
    /// Kept characters of a command's standard output, 200 to 200,000.
    pub max_stdout_chars: usize,
    /// Kept characters of a command's standard error, 200 to 200,000.
    pub max_stderr_chars: usize,
    /// Time limit of a command, 1 s to 300 s.
    pub command_timeout: Duration,
    /// Maximum number of open sandboxes of this app, 1 to 10.
    pub max_concurrent_sandboxes: usize,
    /// Idle time of a sandbox, 10 s to 6 h.
    pub idle_ttl: Duration,
    /// Settings of each sandbox.
    pub sandbox: Sandboxes,
    /// First files of a new sandbox.
    pub seed: Seed,
}

/// Provider of the sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// Containers of sandboxd.
    Docker(DockerSettings),
    /// Vercel. Its credentials are in the [environment](super::Environment).
    Vercel,
}

/// `[app.bash_tools.docker]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerSettings {
    /// Base URL: `http` or `https`, without credentials, query, fragment or trailing slashes.
    pub orchestrator_url: Url,
    /// Variable for sandboxd's token.
    pub admin_token_env: String,
    /// Network policy of the sandboxes.
    pub network: NetworkPolicy,
    /// Memory of each sandbox, 256 to 16,384 MiB.
    pub memory_mb: u64,
    /// Number of checkpoints that are kept of each sandbox, 1 to 1000. `None` means no checkpoints.
    pub checkpoints: Option<u32>,
}

/// Who may use the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Clients on this machine.
    Localhost,
    /// Clients with the admin token. Clients on this machine need it too.
    Lan,
}

/// `[app.bash_tools.sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandboxes {
    /// `node24` or `python3.13` in sandboxd, or any runtime of Vercel.
    pub runtime: String,
    /// Ports that previews may expose: up to 4, without duplicates.
    pub ports: Vec<u16>,
    /// Number of processors, 1 to 8.
    pub vcpus: u64,
    /// Lifetime of a Vercel sandbox, and time limit of seeding, 30 s to 5 h.
    pub timeout: Duration,
}

/// `[app.bash_tools.seed]`: the first files of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seed {
    /// A repository.
    Git(GitSeed),
    /// A directory of this machine.
    Upload(UploadSeed),
    /// No files.
    None,
}

/// A repository as seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSeed {
    /// URL: `https`, or `http` if `git_allow_http` is set. It contains no credentials.
    pub url: Url,
    /// Branch, tag or commit. It cannot be an option of git or a revision expression. `None` is the default branch.
    pub revision: Option<String>,
    /// Variable for the repository's token. Not allowed with an `http` URL.
    pub token_env: Option<String>,
    /// Maximum size of the clone in bytes.
    pub max_bytes: u64,
}

/// A directory as seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadSeed {
    /// Absolute path on this machine.
    pub root: PathBuf,
    /// Glob that paths in the directory must match.
    pub include: String,
    /// Maximum size of the upload in bytes.
    pub max_bytes: u64,
}

impl BashTools {
    /// Settings for sandboxd. `None` with another provider.
    pub fn docker(&self) -> Option<&DockerSettings> {
        match &self.provider {
            Provider::Docker(docker) => Some(docker),
            Provider::Vercel => None,
        }
    }
}

impl DockerSettings {
    /// Whether sandboxd is on this machine, judged by its address.
    pub fn is_local(&self) -> bool {
        match self.orchestrator_url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            None => false,
        }
    }
}
