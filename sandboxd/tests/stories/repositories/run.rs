//! Commands in repositories.

use std::time::Instant;

use futures::future::join_all;
use sandbox_api::sandbox::ListSandboxes;
use test_git::GitServer;

use super::{home, in_repository, run_at};
use crate::support::harness::Daemon;

/// Two commits; the first one has the tag `v1.0.0`.
const TWO_COMMITS: &str =
    "echo one >file; git add .; git commit -qm one; git tag -a -m x v1.0.0; git rev-parse HEAD
    echo two >file; git add .; git commit -qm two; git rev-parse HEAD";

#[tokio::test]
async fn a_repository_is_fetched_once_and_read() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("owner/name", TWO_COMMITS).await;
    let (one, two) = commits.trim().split_once('\n').unwrap();
    let daemon = Daemon::start_in(home(&server)).await;

    let ran =
        daemon.client.run_in_repository(&in_repository("owner/name", "cat file; git log --format=%H")).await;
    let ran = ran.unwrap();
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (0, format!("two\n{two}\n").as_str()), "{ran:?}");
    assert_eq!((ran.resolved_ref.as_str(), ran.branch.as_deref(), ran.cached), (two, Some("main"), false));
    assert_eq!(ran.repository, "https://git.example/owner/name.git");
    assert_eq!(server.fetches(), 1);

    // All names of the same commit lead to the same files.
    for name in ["main", "refs/heads/main", two, &two[..10]] {
        let ran = run_at(&daemon, "https://git.example/owner/name", name, "cat file").await;
        assert_eq!((ran.stdout.as_str(), ran.cached), ("two\n", true), "{name}");
    }
    assert_eq!(server.fetches(), 1);
    let ran = run_at(&daemon, "owner/name", "v1.0.0", "cat file; git status --short").await;
    assert_eq!(
        (ran.stdout.as_str(), ran.resolved_ref.as_str(), ran.tags.len()),
        ("one\n", one, 1),
        "{ran:?}"
    );
    assert_eq!(server.fetches(), 2);
    let all = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(all.len(), 2, "one for each commit, and none of a fetch");
}

#[tokio::test]
async fn a_command_cannot_write_and_keeps_its_exit_code() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", TWO_COMMITS).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let ran = run_at(&daemon, "owner/name", "main", "echo three >file; cat file; exit 7").await;
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (7, "two\n"), "{ran:?}");
    let denied = run_at(&daemon, "owner/name", "main", "curl -sS https://git.example/owner/name").await;
    assert_ne!(denied.exit_code, 0, "it reaches no network");
}

#[tokio::test]
async fn twenty_requests_at_once_fetch_once() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", TWO_COMMITS).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let run = || run_at(&daemon, "owner/name", "main", "cat file");
    let ran = join_all((0..20).map(|_| run())).await;
    assert!(ran.iter().all(|ran| ran.stdout == "two\n"), "{ran:?}");
    assert_eq!(server.fetches(), 1);
    let began = Instant::now();
    assert!(run().await.cached);
    println!("a request for a known repository took {:?}", began.elapsed());
}
