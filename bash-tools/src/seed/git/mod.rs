//! A repository, cloned inside the sandbox: shallow, by https, with nothing of it run.
//!
//! Address and revision are checked here and reach git as data. Credentials are in the environment of the one command that
//! clones, where git asks a helper for them, and only for the server they are for; afterwards they are nowhere in the sandbox.
//! Submodules are left out, and so are git's settings for the workspace's user, which the workspace itself could hold.

mod check;
mod verdict;

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::Result;
use super::workspace::{Planting, Stage};
use crate::provider::Environment;

const CLONE: &str = include_str!("clone.sh");

/// Files that a repository may have. More take hours to check out, and may be a trap: a tree costs nothing to repeat.
const MAX_FILES: u64 = 500_000;

/// How long a server may send nothing, in seconds.
const SILENCE_SECONDS: u32 = 60;

/// A repository to begin with.
#[derive(Debug, Clone)]
pub struct GitSeed {
    /// `https`, or `http` where [`allow_http`](Self::allow_http) says so; without a name and password.
    pub url: String,
    /// Branch, tag, commit (also shortened, which fetches everything) or the full name of a ref, such as `refs/pull/1/head`;
    /// at most 250 bytes. `None` is the default branch.
    pub revision: Option<String>,
    /// For repositories that not everybody may read. Only with `https`.
    pub credentials: Option<GitCredentials>,
    /// Take the repository also from a server that anybody on the way can pretend to be.
    pub allow_http: bool,
    /// For all of it. The provider may allow less.
    pub timeout: Duration,
    /// Most that may be fetched, and most that may be checked out, each in bytes.
    pub max_bytes: u64,
}

/// Who asks for a repository.
#[derive(Debug, Clone)]
pub struct GitCredentials {
    /// A name. Servers that know tokens take any, see [`GitCredentials::token`].
    pub user: String,
    /// A password or token.
    pub token: SecretString,
}

impl GitCredentials {
    /// A token alone, under the name that GitHub wants and others do not mind.
    pub fn token(token: SecretString) -> Self {
        Self { user: "x-access-token".to_owned(), token }
    }
}

impl GitSeed {
    /// Clones into a workspace that has nothing yet.
    pub(super) async fn plant(&self, planting: &Planting<'_>) -> Result<()> {
        let url = self.check()?;
        let stage = Stage::new("git", &[url.as_str().as_bytes(), self.wanted().as_bytes()]);
        let ran = planting.run(CLONE, self.environment(&url, &stage), self.timeout).await?;
        match ran.exit_code {
            0 => planting.is_done(ran).map(drop),
            _ => Err(self.verdict(&ran)),
        }
    }

    /// As git knows it; empty is the default branch.
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
            // So that its words can be told apart.
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

/// Answers git from the environment, and for no other server than the one that the credentials are for: one that redirects
/// elsewhere gets none there.
const HELPER: &str = r#"!f() {
  [ "$1" = get ] || return 0
  p='' h=''
  while IFS= read -r line && [ -n "$line" ]; do
    case $line in protocol=*) p=${line#*=} ;; host=*) h=${line#*=} ;; esac
  done
  if [ "$p://$h" = "$SEED_ORIGIN" ]; then printf 'username=%s\npassword=%s\n' "$SEED_USER" "$SEED_TOKEN"; fi
}; f"#;

/// Git's settings for the clone alone.
fn settings() -> [(&'static str, String); 8] {
    [
        // Whatever helpers the image has.
        ("credential.helper", String::new()),
        ("http.lowSpeedLimit", "1".to_owned()),
        ("http.lowSpeedTime", SILENCE_SECONDS.to_string()),
        // One pack, however few objects: its size is what is bounded.
        ("fetch.unpackLimit", "1".to_owned()),
        ("submodule.recurse", "false".to_owned()),
        ("advice.detachedHead", "false".to_owned()),
        ("core.hooksPath", "/dev/null".to_owned()),
        ("init.defaultBranch", "main".to_owned()),
    ]
}

/// With one more setting for git (`GIT_CONFIG_COUNT` of git-config(1)).
fn with_setting(environment: Environment, name: &str, value: &str) -> Environment {
    let count = environment.iter().filter(|(name, _)| name.starts_with("GIT_CONFIG_KEY_")).count();
    environment
        .with("GIT_CONFIG_COUNT", (count + 1).to_string())
        .with(&format!("GIT_CONFIG_KEY_{count}"), name)
        .with(&format!("GIT_CONFIG_VALUE_{count}"), value)
}
