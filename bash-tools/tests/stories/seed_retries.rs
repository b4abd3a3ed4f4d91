//! Seeds that fail, are stopped in the middle, or are planted by two apps at once.

use bash_tools::seed::{Error, Seed, SeedState};
use bash_tools::session::{self, SessionState};
use bash_tools::tools::Toolkit;
use futures::future::join_all;
use test_daemon::until;

use crate::place::{key, limits, run};
use crate::seed::{Ground, PROJECT, git};
use crate::seed_server::GitServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_failed_is_told_and_tried_again_by_the_next_call() {
    let Some(mut server) = GitServer::prepare().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let sessions = ground.sessions(&Seed::Git(git("project.git")));
    let tools = Toolkit::new(sessions.clone(), key("1"), limits());
    let read =
        || tools.read_file(bash_tools::tools::ReadFileInput { path: "file".into(), ..Default::default() });
    let error = read().await.unwrap_err();
    let bash_tools::tools::Error::Session(session::Error::Seed(seed)) = &error else { panic!("{error:?}") };
    assert!(matches!(**seed, Error::NotReached { .. }), "{seed:?}");
    assert!(error.to_string().contains("was not reached"), "{error}");
    let SessionState::Failed { reason } = sessions.state(&key("1")) else { panic!("it is not") };
    assert!(reason.contains("was not reached"), "{reason}");

    server.serve().await;
    assert!(read().await.unwrap().content.contains("three"));
    assert_eq!(sessions.state(&key("1")), SessionState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_a_seed_is_can_be_seen_and_one_that_was_stopped_begins_anew() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let slow = ground.sessions(&Seed::Git(git("slow/project.git")));
    slow.prewarm(&key("1"));
    let wanted = SeedState::Running { step: "looking at the repository".into() };
    let wanted = SessionState::Seeding { seed: wanted };
    until("it is told", || async { slow.state(&key("1")) == wanted }).await;
    until("the server is asked", || async { !server.asked().is_empty() }).await;

    // As if the app were killed: what opens the session has a task of its own.
    let sandbox = ground.sandbox("2").await;
    let endless = Seed::Git(git("slow/project.git"));
    let asked = server.asked().len();
    tokio::select! {
        planted = ground.plant(&sandbox, &endless) => panic!("{planted:?}"),
        () = until("git asks", || async { server.asked().len() > asked }) => {}
    }
    let project = Seed::Git(git("project.git"));
    ground.plant(&sandbox, &project).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file; ls -A .remcochat").await, "three\nlock\nseeded\n");

    // Stopped while it was put in place: some of it is there, some of it old.
    let sandbox = ground.sandbox("3").await;
    let half = "mkdir -p .remcochat/seed.old/dir file; echo git >.remcochat/seeding; touch file/x .remcochat/seed.old/a";
    ground.output(&sandbox, half).await;
    ground.plant(&sandbox, &project).await.unwrap();
    let look = "cat file; git status --porcelain; ls -A .remcochat";
    assert_eq!(ground.output(&sandbox, look).await, "three\nlock\nseeded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_apps_at_once_plant_it_once() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let seed = Seed::Git(git("project.git"));
    let apps: Vec<_> = (0..4).map(|_| ground.sessions(&seed)).collect();
    let chat = key("1");
    let leases = join_all(apps.iter().map(|app| app.lease(&chat))).await;
    for lease in leases {
        lease.unwrap();
    }
    let fetches = server.asked().iter().filter(|(_, path, _)| path.ends_with("/info/refs")).count();
    assert_eq!(fetches, 2, "one look and one fetch: {:?}", server.asked());
    let tools = Toolkit::new(apps[0].clone(), chat, limits());
    assert_eq!(run(&tools, "cat file; git status --porcelain").await.stdout, "three\n");
}
