//! The operator's settings for repositories.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};

use super::{AllowedDirectories, HttpsUrl};
use crate::{Host, ProjectName};

/// User name of a token that the operator gives without one. Forges ignore it.
const USER: &str = "x-access-token";

/// Settings for repositories.
#[derive(Debug, Clone)]
pub struct RepositorySettings {
    /// Total size of the fetched files that are kept, in bytes. 0 fetches nothing.
    pub kept_bytes: u64,
    /// Maximum that one fetch transfers, in bytes.
    pub max_fetched_bytes: u64,
    /// Where `owner/name` is.
    pub forge: HttpsUrl,
    /// Where packages are looked up.
    pub registry: HttpsUrl,
    /// Tokens of hosts.
    pub tokens: GitTokens,
    /// Projects whose requests use the tokens.
    pub token_projects: Vec<ProjectName>,
    /// Directories that requests may name.
    pub directories: AllowedDirectories,
}

/// Tokens of git servers, by host. They are sent to port 443 only.
#[derive(Clone, Default)]
pub struct GitTokens(Vec<(Host, SecretString)>);

impl GitTokens {
    /// Reads `host=token` or `host=user:token`, separated by commas. The error is the end of a sentence, without a token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens: Vec<(Host, SecretString)> = Vec::new();
        for (at, pair) in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()).enumerate() {
            let fault =
                || format!("must be pairs such as github.com=token, separated by commas, at pair {}", at + 1);
            let (host, token) = pair.split_once('=').ok_or_else(fault)?;
            let host = Host::parse(host.trim()).map_err(|_| fault())?;
            let token = token.trim();
            if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(fault());
            }
            if tokens.iter().any(|(known, _)| *known == host) {
                return Err(format!("must have each host once, unlike {host}"));
            }
            tokens.push((host, credentials(token)));
        }
        Ok(Self(tokens))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one for the address.
    pub fn has(&self, url: &HttpsUrl) -> bool {
        self.of(url).is_some()
    }

    /// The value of `Authorization` for an address.
    pub fn authorization(&self, url: &HttpsUrl) -> Option<String> {
        Some(format!("Basic {}", self.of(url)?.expose_secret()))
    }

    fn of(&self, url: &HttpsUrl) -> Option<&SecretString> {
        let is_of = |(host, _): &&(Host, SecretString)| host == url.host() && url.port() == 443;
        self.0.iter().find(is_of).map(|(_, token)| token)
    }
}

impl fmt::Debug for GitTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(host, _)| host.to_string())).finish()
    }
}

fn credentials(token: &str) -> SecretString {
    let pair = if token.contains(':') { token.to_owned() } else { format!("{USER}:{token}") };
    BASE64_STANDARD.encode(pair).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_host_and_is_not_shown() {
        let tokens = GitTokens::parse("Git.Example=hunter2, other.example=me:word").unwrap();
        let url = |text: &str| HttpsUrl::parse(text).unwrap();
        let of = |text: &str| tokens.authorization(&url(text));
        assert_eq!(
            of("https://git.example/a"),
            Some(format!("Basic {}", BASE64_STANDARD.encode("x-access-token:hunter2")))
        );
        assert_eq!(
            of("https://other.example/a"),
            Some(format!("Basic {}", BASE64_STANDARD.encode("me:word")))
        );
        assert_eq!(of("https://git.example:444/a"), None);
        assert_eq!(of("https://sub.git.example/a"), None);
        let shown = format!("{tokens:?}");
        assert!(shown.contains("git.example") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn an_invalid_pair_is_named_without_its_token() {
        for bad in [
            "hunter2",
            "git.example=",
            "=hunter2",
            "a b=hunter2",
            "a.example=x,a.example=hunter2",
            "a.example=hun ter2",
        ] {
            let problem = GitTokens::parse(bad).unwrap_err();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        assert!(!GitTokens::parse("").unwrap().has(&HttpsUrl::parse("https://a.example").unwrap()));
    }
}
