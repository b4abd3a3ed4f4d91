//! Seed from a git repository: a shallow https clone in the sandbox that runs none of its code. If the provider has the
//! repository already, the sandbox begins with its files ([`shared`]).
//!
//! URL and revision are checked here and passed to git as data. Credentials are in the environment of the clone
//! command only. A helper returns them to git, and only for their server. Afterwards they exist nowhere in the
//! sandbox. Submodules are not cloned. The git settings of the workspace's user are ignored, because the workspace
//! could contain them.

mod check;
mod shared;
mod verdict;

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::Result;
use super::workspace::{Seeding, Stage};
use crate::provider::Environment;

pub(super) use shared::Revision;

const CLONE: &str = include_str!("clone.sh");

/// Maximum number of files of a repository. More take hours to check out and may be an attack, because a tree can
/// repeat at no cost.
const MAX_FILES: u64 = 500_000;

/// How long a server may send nothing, in seconds.
const SILENCE_SECONDS: u32 = 60;

/// A repository as seed.
#[derive(Debug, Clone)]
pub struct GitSeed {
    /// URL: `https`, or `http` if [`allow_http`](Self::allow_http) is set. It contains no credentials.
    pub url: String,
    /// Branch, tag, commit (an abbreviated one fetches everything) or the full name of a ref, such as
    /// `refs/pull/1/head`. At most 250 bytes. `None` is the default branch.
    pub revision: Option<String>,
    /// Credentials for private repositories. They require `https`.
    pub credentials: Option<GitCredentials>,
    /// Allows `http`, by which anyone in between can impersonate the server.
    pub allow_http: bool,
    /// Time limit of the whole seed. The provider may have a lower one.
    pub timeout: Duration,
    /// Maximum size of the fetched data and of the checked-out files, each in bytes.
    pub max_bytes: u64,
}

/// Credentials for a repository.
#[derive(Debug, Clone)]
pub struct GitCredentials {
    /// User name. With a token, servers accept any name, see [`GitCredentials::token`].
    pub user: String,
    /// Password or token.
    pub token: SecretString,
}

impl GitCredentials {
    /// Creates credentials from a token alone, with the user name that GitHub requires and other servers ignore.
    pub fn token(token: SecretString) -> Self {
        Self { user: "x-access-token".to_owned(), token }
    }
}

impl GitSeed {
    /// Clones the repository into an empty workspace.
    pub(super) async fn seed_workspace(&self, progress: &Seeding<'_>) -> Result<()> {
        let url = self.check()?;
        let stage = self.stage(&url);
        let ran = progress.run(CLONE, self.environment(&url, &stage), self.timeout).await?;
        match ran.exit_code {
            0 => progress.is_done(ran).map(drop),
            _ => Err(self.verdict(&ran)),
        }
    }

    /// Revision for git. Empty means the default branch.
    fn wanted(&self) -> &str {
        self.revision.as_deref().filter(|revision| *revision != "HEAD").unwrap_or_default()
    }

    fn environment(&self, url: &Url, stage: &Stage) -> Environment {
        let protocols = if self.allow_http { "https:http" } else { "https" };
        let mut environment = stage
            .environment()
            .with("SEED_URL", url.as_str())
            .with("SEED_REVISION", self.wanted())
            .with("SEED_MAX_BYTES", self.max_bytes.to_string())
            .with("SEED_MAX_KIB", self.max_bytes.div_ceil(1024).to_string())
            .with("SEED_MAX_FILES", MAX_FILES.to_string())
            .with("GIT_ALLOW_PROTOCOL", protocols)
            .with("GIT_TERMINAL_PROMPT", "0")
            .with("GIT_CONFIG_GLOBAL", "/dev/null")
            // Messages must be in English to be recognized.
            .with("LC_ALL", "C");
        for (name, value) in settings() {
            environment = with_setting(environment, name, &value);
        }
        match &self.credentials {
            None => environment,
            Some(credentials) => {
                let environment = with_setting(environment, "credential.helper", HELPER);
                environment
                    .with("SEED_ORIGIN", url.origin().ascii_serialization())
                    .with("SEED_USER", &credentials.user)
                    .with("SEED_TOKEN", credentials.token.expose_secret())
            }
        }
    }
}

/// Git credential helper. It returns the credentials from the environment, and only for their server. After a
/// redirect, another server gets none.
const HELPER: &str = r#"!f() {
  [ "$1" = get ] || return 0
  p='' h=''
  while IFS= read -r line && [ -n "$line" ]; do
    case $line in protocol=*) p=${line#*=} ;; host=*) h=${line#*=} ;; esac
  done
  if [ "$p://$h" = "$SEED_ORIGIN" ]; then printf 'username=%s\npassword=%s\n' "$SEED_USER" "$SEED_TOKEN"; fi
}; f"#;

/// Git settings of the clone.
fn settings() -> [(&'static str, String); 8] {
    [
        // Disables the helpers of the image.
        ("credential.helper", String::new()),
        ("http.lowSpeedLimit", "1".to_owned()),
        ("http.lowSpeedTime", SILENCE_SECONDS.to_string()),
        // Keeps even few objects in one pack, because the size of the pack is limited.
        ("fetch.unpackLimit", "1".to_owned()),
        ("submodule.recurse", "false".to_owned()),
        ("advice.detachedHead", "false".to_owned()),
        ("core.hooksPath", "/dev/null".to_owned()),
        ("init.defaultBranch", "main".to_owned()),
    ]
}

/// Adds a setting for git (`GIT_CONFIG_COUNT` of git-config(1)).
fn with_setting(environment: Environment, name: &str, value: &str) -> Environment {
    let count = environment.iter().filter(|(name, _)| name.starts_with("GIT_CONFIG_KEY_")).count();
    environment
        .with("GIT_CONFIG_COUNT", (count + 1).to_string())
        .with(&format!("GIT_CONFIG_KEY_{count}"), name)
        .with(&format!("GIT_CONFIG_VALUE_{count}"), value)
}
