//! Branches and tags that move.

use test_git::GitServer;

use super::{error_of, home, run_at};
use crate::support::harness::Daemon;
use sandbox_api::ErrorCode;

/// Replaces the only commit with another one, and removes the first one permanently.
const FORCE_PUSH: &str = "set -e; cd work/owner/name; echo two >file; git add .; git commit -q --amend -m two
    git tag -f v1.0.0 >&2; git push -q --force --tags ../../../owner/name.git main
    cd ../../../owner/name.git; git reflog expire --expire=now --all; git gc -q --prune=now";

async fn server() -> Option<GitServer> {
    let server = GitServer::start().await?;
    server.repository("owner/name", "echo one >file; git add .; git commit -qm one; git tag v1.0.0").await;
    Some(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_moves_between_look_up_and_fetch_is_looked_up_again() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    server.before_fetch(FORCE_PUSH);
    let ran = run_at(&daemon, "owner/name", "v1.0.0", "cat file; git log --format=%H").await;
    let expected = format!("two\n{}\n", ran.resolved_ref);
    assert_eq!((ran.exit_code, ran.stdout), (0, expected));
    assert_eq!(server.fetches(), 2, "of the first commit, and of the second one");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_disappears_before_its_fetch_is_not_found() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    server.before_fetch("rm -r owner/name.git; git init -q --bare owner/name.git");
    assert_eq!(error_of(&daemon.client, "owner/name", Some("v1.0.0")).await, ErrorCode::TagNotFound);
    assert_eq!(server.fetches(), 1);
    daemon.stop().await;
}
