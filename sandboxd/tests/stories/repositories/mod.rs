//! Repositories: found, fetched once, read and given to sandboxes.

mod directories;
mod faults;
mod hostile;
mod killed;
mod moved;
mod packages;
mod query;
mod run;
mod tokens;
mod tool;
mod workspaces;

use sandbox_api::ErrorCode;
use sandbox_api::repository::{RepositoryRan, RunInRepository};
use sandbox_client::Client;
use test_git::{GitServer, NAME};

use crate::support::harness::{Daemon, Home};

/// Settings of a daemon whose forge and registry are the server.
pub(crate) fn home(server: &GitServer) -> Home {
    server
        .home()
        .set("SANDBOXD_GIT_FORGE", &format!("https://{NAME}"))
        .set("SANDBOXD_NPM_REGISTRY", &format!("https://{NAME}/registry"))
}

pub(crate) fn in_repository(repository: &str, command: &str) -> RunInRepository {
    RunInRepository { repository: repository.into(), command: command.into(), ..RunInRepository::default() }
}

/// Runs a command in a repository at a branch, a tag or a commit.
pub(crate) async fn run_at(daemon: &Daemon, repository: &str, name: &str, command: &str) -> RepositoryRan {
    let request = RunInRepository { git_ref: Some(name.into()), ..in_repository(repository, command) };
    daemon.client.run_in_repository(&request).await.unwrap()
}

/// The error of a request for a repository, perhaps at a branch, a tag or a commit.
pub(crate) async fn error_of(client: &Client, repository: &str, name: Option<&str>) -> ErrorCode {
    let request =
        RunInRepository { git_ref: name.map(str::to_owned), ..in_repository(repository, "cat file") };
    client.run_in_repository(&request).await.unwrap_err().code().unwrap()
}
