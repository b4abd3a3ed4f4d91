//! What the sandbox of a fetch executes, and what it prints.

use crate::git::{Client, Directory, Relay};
use crate::model::limits;
use crate::model::repository::{CommitHash, HttpsUrl, RepositoryKey, RepositoryOrigin, RepositoryWarning};
use crate::service::{Error, RepositoryError};

use super::Repositories;
use super::resolve::fault;

/// Fetches a commit into the workspace, and prints what is missing in the files. The variables are checked values.
const FETCH: &str = include_str!("fetch.sh");

/// Unpacks the files of a directory that is not a git repository.
const UNPACK: &str = include_str!("unpack.sh");

/// The agent's proxy, by which the sandbox reaches the relay.
const PROXY: &str = "http://127.0.0.1:13128";

/// How the line begins with which [`FETCH`] names the commit of a directory.
const COMMIT: &str = "commit ";

/// What the sandbox of a fetch executes, and where it connects to.
pub(super) struct Helper {
    pub(super) relay: Relay,
    pub(super) script: &'static str,
    pub(super) env: Vec<(&'static str, String)>,
}

/// What a fetch has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    /// The commit, if the request may have named a tag.
    pub(super) commit: Option<CommitHash>,
    /// What is missing in the files.
    pub(super) warnings: Vec<RepositoryWarning>,
}

impl Repositories {
    /// How to fetch a repository. `directory` is that of its key, if it has one.
    pub(super) async fn helper(
        &self,
        key: &RepositoryKey,
        directory: Option<Directory>,
    ) -> Result<Helper, Error> {
        match (&key.origin, directory) {
            (RepositoryOrigin::Server(url), _) => {
                Ok(of_server(&self.client, url, key, self.settings.max_fetched_bytes))
            }
            (RepositoryOrigin::Directory(name), Some(directory)) => {
                let is_repository = directory.is_repository().await;
                let is_repository = is_repository.map_err(|error| fault(error, &name.to_string()))?;
                Ok(of_directory(directory, is_repository, &key.commit))
            }
            (RepositoryOrigin::Directory(name), None) => {
                Err(RepositoryError::NotFound { repository: name.to_string() }.into())
            }
        }
    }
}

fn of_server(client: &Client, url: &HttpsUrl, key: &RepositoryKey, max_bytes: u64) -> Helper {
    let env = vec![
        ("PROXY", PROXY.to_owned()),
        ("RELAY", Relay::URL.to_owned()),
        ("COMMIT", key.commit.to_string()),
        ("ORIGIN", url.to_string()),
    ];
    let relay = Relay::new(client.clone(), url.clone(), key.with_token, max_bytes);
    Helper { relay, script: FETCH, env }
}

fn of_directory(directory: Directory, is_repository: bool, commit: &CommitHash) -> Helper {
    let mut env = vec![("PROXY", PROXY.to_owned()), ("ARCHIVE", Relay::ARCHIVE_URL.to_owned())];
    if !is_repository {
        return Helper { relay: Relay::for_files(directory, commit.clone()), script: UNPACK, env };
    }
    env.push(("COMMIT", commit.to_string()));
    Helper { relay: Relay::for_objects(directory), script: FETCH, env }
}

impl Fetched {
    /// Reads what a script has printed. Other lines are skipped.
    pub(super) fn parse(stdout: &[u8], has_skipped: bool) -> Self {
        let mut fetched = Self::default();
        for line in String::from_utf8_lossy(stdout).lines().take(limits::MAX_FETCH_LINES) {
            match line.strip_prefix(COMMIT) {
                Some(hash) => fetched.commit = hash.parse().ok(),
                None => fetched.warnings.extend(RepositoryWarning::parse(line)),
            }
        }
        fetched.warnings.extend(has_skipped.then_some(RepositoryWarning::Skipped));
        fetched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_are_skipped() {
        let hash = "a".repeat(40);
        let text = format!("commit {hash}\nhello\nlfs\ncommit x/../y\n");
        let fetched = Fetched::parse(text.as_bytes(), true);
        assert_eq!(fetched.warnings, [RepositoryWarning::Lfs, RepositoryWarning::Skipped]);
        assert_eq!(fetched.commit, None, "the last line counts");
        assert_eq!(Fetched::parse(format!("commit {hash}").as_bytes(), false).commit, hash.parse().ok());
    }
}
