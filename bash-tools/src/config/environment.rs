//! Environment variables for the tools: the switch and the secrets.

use secrecy::{ExposeSecret, SecretString};

use super::settings::{BashTools, Seed};
use crate::provider::{BadCredentials, Credentials};

/// Minimum length of a token in characters.
pub const MIN_TOKEN_CHARS: usize = 32;

/// Variable that switches the tools on.
pub(super) const SWITCH: &str = "REMCOCHAT_ENABLE_BASH_TOOL";
/// Variable for the token of clients on the network.
pub(super) const ADMIN_TOKEN: &str = "REMCOCHAT_ADMIN_TOKEN";
/// Values that switch the tools on.
const ON: [&str; 4] = ["1", "true", "yes", "on"];

/// The environment, read once. Its `Debug` form does not print secrets.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Whether `REMCOCHAT_ENABLE_BASH_TOOL` is 1, true, yes or on.
    pub is_switched_on: bool,
    /// `REMCOCHAT_ADMIN_TOKEN`, of any length.
    pub admin_token: Option<SecretString>,
    /// sandboxd's token, from the variable that `docker.admin_token_env` names.
    pub orchestrator_token: Option<SecretString>,
    /// The repository's token, from the variable that `seed.git_token_env` names.
    pub git_token: Option<SecretString>,
    /// Credentials for Vercel, or why there are none.
    pub vercel: Result<Credentials, BadCredentials>,
}

impl Environment {
    /// Reads the variables that these settings need. Without settings, reads the switch and the admin token. An empty
    /// or blank variable counts as unset. White space around a value is removed.
    pub fn read(tools: Option<&BashTools>, env: impl Fn(&str) -> Option<String>) -> Self {
        let secret = |name: &str| value(&env, name).map(SecretString::from);
        Self {
            is_switched_on: value(&env, SWITCH)
                .is_some_and(|value| ON.contains(&value.to_ascii_lowercase().as_str())),
            admin_token: secret(ADMIN_TOKEN),
            orchestrator_token: tools
                .and_then(BashTools::docker)
                .and_then(|docker| secret(&docker.admin_token_env)),
            git_token: match tools.map(|tools| &tools.seed) {
                Some(Seed::Git(git)) => git.token_env.as_deref().and_then(secret),
                Some(Seed::Upload(_) | Seed::None) | None => None,
            },
            vercel: Credentials::from_lookup(&env),
        }
    }

    /// Returns the admin token, if it is long enough.
    pub fn strong_admin_token(&self) -> Option<&SecretString> {
        self.admin_token.as_ref().filter(|token| chars(token) >= MIN_TOKEN_CHARS)
    }
}

/// Environment of the process. A value that is not valid UTF-8 counts as unset.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(super) fn chars(token: &SecretString) -> usize {
    token.expose_secret().chars().count()
}

pub(super) fn value(env: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let value = env(name)?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}
