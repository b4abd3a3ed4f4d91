//! Sandboxes with the files of a repository.

use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use test_git::GitServer;

use super::{home, run_at};
use crate::support::harness::Daemon;

/// Enough files for a base.
const LARGE: &str =
    "mkdir many; for i in $(seq 1200); do echo $i >many/$i; done; echo x >file; git add .; git commit -qm x";

fn workspace(session_key: &str) -> CreateSandbox {
    CreateSandbox {
        session_key: session_key.into(),
        workspace: Some(WorkspaceSource::repository("owner/name")),
        ..CreateSandbox::default()
    }
}

#[tokio::test]
async fn sandboxes_get_files_of_their_own() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", LARGE).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let first = daemon.client.create_or_reconnect(&workspace("chat:1")).await.unwrap();
    assert!(first.created);
    let files = first.repository.as_ref().unwrap();
    assert_eq!((files.branch.as_deref(), files.resolved_ref.len(), files.cached), (Some("main"), 40, false));
    let second = daemon.client.create_or_reconnect(&workspace("chat:2")).await.unwrap();
    assert!(second.repository.as_ref().unwrap().cached, "{second:?}");
    let (first, second) = (first.sandbox_id, second.sandbox_id);
    let change = "git status --short; echo y >file; rm many/1; git status --short; git diff --stat | tail -1";
    let changed = daemon.output(&first, change).await;
    assert_eq!(changed, " M file\n D many/1\n 2 files changed, 1 insertion(+), 2 deletions(-)\n");
    assert_eq!(daemon.output(&second, "cat file; git status --short").await, "x\n");
    assert_eq!(run_at(&daemon, "owner/name", "main", "cat file; ls many | wc -l").await.stdout, "x\n1200\n");
    assert_eq!(server.fetches(), 1);

    // The session keeps its files, and nothing is looked up.
    let requests = server.requests().len();
    let again = daemon.client.create_or_reconnect(&workspace("chat:1")).await.unwrap();
    assert!(!again.created && again.ignored.contains(&"workspace".to_owned()), "{again:?}");
    assert_eq!(again.repository, None);
    assert_eq!(server.requests().len(), requests);
    let bases = [first, second].map(async |id| daemon.client.get(&id).await.unwrap().posture.unwrap().base);
    let [one, two] = bases;
    assert_eq!(one.await, two.await, "they share a base, or have none here");
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_look_up() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let run = || run_at(&daemon, "owner/name", "main", "cat file");
    let (first, second, third) = tokio::join!(run(), run(), run());
    assert_eq!([first.stdout, second.stdout, third.stdout], ["x\n"; 3]);
    let refs = server.requests().iter().filter(|(_, path, _)| path.ends_with("/info/refs")).count();
    assert_eq!(refs, 2, "one look-up and one fetch: {:?}", server.requests());
}

#[tokio::test]
async fn the_least_recently_used_repository_makes_room() {
    let Some(server) = GitServer::start().await else { return };
    for name in ["owner/one", "owner/two"] {
        server.repository(name, "head -c 700K /dev/urandom >file; git add .; git commit -qm x").await;
    }
    let daemon = Daemon::start_in(home(&server).set("SANDBOXD_REPOSITORIES_MB", "2")).await;
    let cached = async |name| run_at(&daemon, name, "main", "wc -c file").await.cached;
    assert_eq!((cached("owner/one").await, cached("owner/one").await), (false, true));
    assert!(!cached("owner/two").await);
    assert!(cached("owner/two").await, "the newest is kept");
    assert!(!cached("owner/one").await, "it has made room");
    assert_eq!(server.fetches(), 3);
}
