//! Seeds that fail, are interrupted, or are started by two apps at once.

use bash_tools::seed::{Error, Seed, SeedState};
use bash_tools::session::{self, SessionState};
use bash_tools::tools::Toolkit;
use futures::future::join_all;
use test_daemon::until;

use crate::fixture::{key, limits, run};
use crate::seed::{PROJECT, SeedFixture, git};
use test_git::GitServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_seed_is_reported_and_retried_by_the_next_call() {
    let Some(mut server) = GitServer::prepare().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sessions = fixture.sessions(&Seed::Git(git("project.git")));
    let tools = Toolkit::new(sessions.clone(), key("1"), limits());
    let read =
        || tools.read_file(bash_tools::tools::ReadFileInput { path: "file".into(), ..Default::default() });
    let error = read().await.unwrap_err();
    let bash_tools::tools::Error::Session(session::Error::Seed(seed)) = &error else { panic!("{error:?}") };
    assert!(matches!(**seed, Error::NotReached { .. }), "{seed:?}");
    assert!(error.to_string().contains("was not reached"), "{error}");
    let SessionState::Failed { reason } = sessions.state(&key("1")) else {
        panic!("the seed has not failed")
    };
    assert!(matches!(sessions.seed_state(&key("1")), Some(SeedState::Failed { .. })));
    assert!(reason.contains("was not reached"), "{reason}");

    server.serve().await;
    assert!(read().await.unwrap().content.contains("three"));
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
    assert_eq!(sessions.seed_state(&key("1")), Some(SeedState::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_progress_is_reported_and_an_interrupted_seed_restarts() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let slow = fixture.sessions(&Seed::Git(git("slow/project.git")));
    slow.prewarm(&key("1"));
    let wanted = SeedState::Running { step: "looking at the repository".into() };
    let wanted = SessionState::Seeding { seed: wanted };
    until("the step is reported", || async { slow.state(&key("1")) == wanted }).await;
    until("the server gets a request", || async { !server.requests().is_empty() }).await;

    // As if the app were killed: the task that opens the session is aborted.
    let sandbox = fixture.sandbox("2").await;
    let endless = Seed::Git(git("slow/project.git"));
    let requests_before = server.requests().len();
    tokio::select! {
        seeded = fixture.seed_workspace(&sandbox, &endless) => panic!("{seeded:?}"),
        () = until("git sends a request", || async { server.requests().len() > requests_before }) => {}
    }
    let project = Seed::Git(git("project.git"));
    fixture.seed_workspace(&sandbox, &project).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file; ls -A .remcochat").await, "three\nlock\nseeded\n");

    // Interrupted while it was moved into fixture: some files are new, some are old.
    let sandbox = fixture.sandbox("3").await;
    let half = "mkdir -p .remcochat/seed.old/dir file; echo git >.remcochat/seeding; touch file/x .remcochat/seed.old/a";
    fixture.output(&sandbox, half).await;
    fixture.seed_workspace(&sandbox, &project).await.unwrap();
    let look = "cat file; git status --porcelain; ls -A .remcochat";
    assert_eq!(fixture.output(&sandbox, look).await, "three\nlock\nseeded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_apps_seed_once() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let seed = Seed::Git(git("project.git"));
    let apps: Vec<_> = (0..4).map(|_| fixture.sessions(&seed)).collect();
    let chat = key("1");
    let leases = join_all(apps.iter().map(|app| app.lease(&chat))).await;
    for lease in leases {
        lease.unwrap();
    }
    let fetches = server.requests().iter().filter(|(_, path, _)| path.ends_with("/info/refs")).count();
    assert_eq!(fetches, 2, "one look and one fetch: {:?}", server.requests());
    let tools = Toolkit::new(apps[0].clone(), chat, limits());
    assert_eq!(run(&tools, "cat file; git status --porcelain").await.stdout, "three\n");
}
