//! Repositories that the provider has already: a new sandbox begins with their files, and nothing is cloned in it.
//!
//! If the provider cannot give the files, for whatever reason, the repository is cloned in the sandbox as with every other
//! provider. So the errors are those of the clone. A repository with credentials is always cloned, because credentials must not
//! leave the app and the sandbox of the clone.

use tokio::time::timeout;

use super::{GitSeed, Seeding, Stage};
use crate::chat_key::ChatKey;
use crate::provider::{Opened, OpenedWith, Provider, Repository};
use crate::seed::{Error, Result};

/// Completes a workspace that has the files.
const ADOPT: &str = include_str!("adopt.sh");

/// What the revision of a sandbox with files turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::seed) enum Revision {
    /// A branch of this name, perhaps the default one.
    Branch(String),
    /// A tag, a commit, the full name of a ref, or a default that is not a branch.
    Other,
}

impl GitSeed {
    /// Opens the session with the files of the repository. `None` if the repository has to be cloned.
    pub(in crate::seed) async fn open(
        &self,
        provider: &dyn Provider,
        key: &ChatKey,
    ) -> Result<Option<(Opened, Revision)>> {
        let url = self.check()?;
        if self.credentials.is_some() || url.scheme() != "https" {
            return Ok(None);
        }
        let open = self.open_first(provider, key, url.as_str());
        timeout(self.timeout, open).await.map_err(|_| Error::TimedOut { after: self.timeout })?
    }

    /// Tries the meanings of the revision in the order of the clone: a branch precedes a tag of the same name.
    async fn open_first(
        &self,
        provider: &dyn Provider,
        key: &ChatKey,
        url: &str,
    ) -> Result<Option<(Opened, Revision)>> {
        let is_full_name = self.wanted().starts_with("refs/");
        for revision in self.meanings() {
            let repository = Repository { url: url.to_owned(), revision };
            match provider.open_with(key, &repository).await? {
                OpenedWith::Opened { opened, branch } => {
                    let branch = branch.filter(|_| !is_full_name);
                    return Ok(Some((opened, branch.map_or(Revision::Other, Revision::Branch))));
                }
                OpenedWith::NoRevision => {}
                OpenedWith::Unavailable { message } => {
                    tracing::info!(session = %key, message, "the repository is cloned in the sandbox");
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn meanings(&self) -> Vec<Option<String>> {
        let wanted = self.wanted();
        let is_hash = wanted.len() == 40 && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
        let as_it_is = Some(wanted.to_owned());
        match wanted {
            "" => vec![None],
            _ if is_hash || wanted.starts_with("refs/") => vec![as_it_is],
            _ => vec![Some(format!("refs/heads/{wanted}")), as_it_is],
        }
    }

    /// Completes a new workspace that has the files. Returns whether it had them.
    pub(in crate::seed) async fn complete(
        &self,
        progress: &Seeding<'_>,
        revision: &Revision,
    ) -> Result<bool> {
        let url = self.check()?;
        let branch = match revision {
            Revision::Branch(name) => name,
            Revision::Other => "",
        };
        let environment = self.environment(&url, &self.stage(&url)).with("SEED_BRANCH", branch);
        let ran = progress.run(ADOPT, environment, self.timeout).await?;
        match ran.exit_code {
            0 => progress.is_done(ran),
            _ => Err(self.verdict(&ran)),
        }
    }

    pub(super) fn stage(&self, url: &url::Url) -> Stage {
        Stage::new("git", &[url.as_str().as_bytes(), self.wanted().as_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_branch_precedes_a_tag() {
        let meanings = |revision: Option<&str>| {
            let seed = GitSeed {
                url: "https://git.example/a".into(),
                revision: revision.map(str::to_owned),
                credentials: None,
                allow_http: false,
                timeout: Duration::from_secs(1),
                max_bytes: 1,
            };
            seed.meanings().into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()
        };
        assert_eq!(meanings(None), [""]);
        assert_eq!(meanings(Some("HEAD")), [""]);
        assert_eq!(meanings(Some("v1")), ["refs/heads/v1", "v1"]);
        let commit = "a".repeat(40);
        assert_eq!(meanings(Some(&commit)), [&*commit]);
        assert_eq!(meanings(Some("refs/tags/v1")), ["refs/tags/v1"]);
    }
}
