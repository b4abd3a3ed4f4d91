//! Private repositories.

use sandbox_api::ErrorCode;
use test_git::{ELSEWHERE, GitServer, NAME, TOKEN};

use super::{error_of, home, in_repository, run_at};
use crate::projects::client_of;
use crate::support::harness::{Daemon, Home};

const PRIVATE: &str = "https://git.example/private/owner/name.git";

fn with_token(server: &GitServer) -> Home {
    home(server).set("SANDBOXD_GIT_TOKENS", &format!("{NAME}={TOKEN}"))
}

#[tokio::test]
async fn a_token_serves_only_the_projects_that_may_use_it() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(with_token(&server)).await;
    let ran = run_at(&daemon, PRIVATE, "main", "cat file").await;
    assert_eq!((ran.stdout.as_str(), ran.cached), ("x\n", false));
    let commit = ran.resolved_ref.as_str();

    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    for name in [None, Some("main"), Some(commit)] {
        assert_eq!(error_of(&lab, PRIVATE, name).await, ErrorCode::RepoNotFound, "{name:?}");
    }
    // A public repository at the same host needs no token.
    let public = lab.run_in_repository(&in_repository("owner/name", "cat file")).await.unwrap();
    assert_eq!(public.stdout, "x\n");

    let home = daemon.stop().await.set("SANDBOXD_GIT_TOKEN_PROJECTS", "lab");
    let daemon = Daemon::start_in(home).await;
    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    let ran = lab.run_in_repository(&in_repository(PRIVATE, "cat file")).await.unwrap();
    assert!(ran.cached, "it was fetched with the same token");
    assert_eq!(error_of(&daemon.client, PRIVATE, Some(commit)).await, ErrorCode::RepoNotFound);
}

#[tokio::test]
async fn a_token_is_nowhere_but_at_its_host() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(with_token(&server)).await;
    let look = format!(
        "env | grep {TOKEN}; grep -r {TOKEN} . ~ /tmp; git config --list | grep -i -e auth -e helper"
    );
    let ran = run_at(&daemon, PRIVATE, "main", &look).await;
    assert_eq!((ran.stdout.as_str(), ran.exit_code), ("", 1), "{ran:?}");
    let sent = server.requests();
    assert!(sent.iter().all(|(_, path, _)| !path.contains(TOKEN)), "{sent:?}");
    assert!(sent.iter().any(|(_, _, authorization)| authorization.is_some()));

    // The redirect leads to a repository that the token would open.
    let away = "https://git.example/away/owner/name.git";
    let commit = ran.resolved_ref.as_str();
    for name in [None, Some(commit)] {
        assert_eq!(error_of(&daemon.client, away, name).await, ErrorCode::RepoNotFound, "{name:?}");
    }
    let elsewhere: Vec<_> = server.requests().into_iter().filter(|(host, ..)| host == ELSEWHERE).collect();
    assert!(!elsewhere.is_empty() && elsewhere.iter().all(|(.., authorization)| authorization.is_none()));
}
