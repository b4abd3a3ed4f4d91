//! Sandboxes that begin with the files of a repository that sandboxd has fetched.

use std::sync::Arc;
use std::time::Duration;

use bash_tools::provider::{Docker, NetworkMode, NetworkPolicy};
use bash_tools::seed::{Error, GitSeed, Seed};
use bash_tools::session::{self, SessionLimits, Sessions};
use test_daemon::{Daemon, Home};
use test_git::{GitServer, NAME};

use crate::fixture::{Fixture, key, limits, run, small};
use crate::seed::{PROJECT, at, git, with_token};
use bash_tools::tools::Toolkit;

/// What a story looks at in a workspace.
const LOOK: &str = "cat file; git status --porcelain --branch; git log --oneline | wc -l; git tag
    git remote -v | head -1; ls -A; ls -A .remcochat";

/// An app whose sandboxes have no network, so that nothing can be cloned in them.
struct App {
    daemon: Daemon,
    network: NetworkMode,
}

impl App {
    async fn without_network(home: Home) -> Self {
        Self { daemon: Daemon::start_in(home).await, network: NetworkMode::None }
    }

    async fn with_network(home: Home) -> Self {
        Self { daemon: Daemon::start_in(home).await, network: NetworkMode::Default }
    }

    fn sessions(&self, seed: &Seed) -> Sessions {
        let options = bash_tools::provider::DockerOptions {
            network: NetworkPolicy::new(self.network, [""; 0]),
            ..small()
        };
        let provider = Arc::new(Docker::new(self.daemon.client.clone(), options));
        let limits = SessionLimits { max_open: 4, idle_ttl: Duration::from_secs(600) };
        Sessions::new(provider, Some(seed.clone()), limits)
    }

    /// Output of a script in the sandbox of a chat, which is seeded first.
    async fn output(&self, seed: &Seed, chat: &str, script: &str) -> Result<String, session::Error> {
        let sessions = self.sessions(seed);
        let _lease = sessions.lease(&key(chat)).await?;
        let tools = Toolkit::new(sessions, key(chat), limits());
        Ok(run(&tools, script).await.stdout)
    }
}

fn seed_error(error: session::Error) -> Arc<Error> {
    match error {
        session::Error::Seed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_fetched_once_and_looks_like_a_clone() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let app = App::with_network(server.home()).await;
    let seed = Seed::Git(git("project.git"));
    let expected = format!(
        "three\n## main...origin/main\n1\norigin\thttps://{NAME}/project.git (fetch)\n.git\n.remcochat\na b\ndir\nfile\nlink\nlock\nseeded\n"
    );
    for chat in ["1", "2"] {
        assert_eq!(app.output(&seed, chat, LOOK).await.unwrap(), expected, "{chat}");
    }
    assert_eq!(server.fetches(), 1, "both have the same files");
    // The seed runs only once.
    app.output(&seed, "1", "echo mine >file").await.unwrap();
    assert_eq!(app.output(&at("project.git", "v1"), "1", "cat file").await.unwrap(), "mine\n");
    assert_eq!(server.fetches(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_revision_is_that_of_a_clone() {
    let Some(server) = GitServer::start().await else { return };
    let project = format!("{PROJECT}; git tag main v1");
    let commits = server.repository("project", &project).await;
    let second = commits.lines().nth(1).unwrap();
    let app = App::without_network(server.home()).await;
    let cases = [
        ("main", "three\nmain\n"),
        ("feature/x", "x\nfeature/x\n"),
        ("v1", "one\nHEAD\nv1\n"),
        ("v3", "three\nHEAD\nv3\n"),
        (second, "two\nHEAD\n"),
        ("refs/heads/feature/x", "x\nHEAD\n"),
    ];
    for (revision, expected) in cases {
        let look = "cat file; git rev-parse --abbrev-ref HEAD; git tag; git status --porcelain";
        let found = app.output(&at("project.git", revision), revision, look).await.unwrap();
        assert_eq!(found, expected, "{revision}");
    }
    let look = "cat file; git rev-parse --abbrev-ref HEAD";
    let default = app.output(&Seed::Git(git("project.git")), "default", look).await.unwrap();
    assert_eq!(default, "three\nmain\n", "the name of the default branch needs no network");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_daemon_cannot_give_is_cloned() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("project", PROJECT).await;
    let second = commits.lines().nth(1).unwrap();
    let app = App::with_network(server.home()).await;
    // No ref has this commit, so only a clone finds it.
    let short = app.output(&at("project.git", &second[..8]), "short", "cat file").await.unwrap();
    assert_eq!(short, "two\n");
    // Credentials go to the clone only.
    let private = with_token("private/project.git", test_git::TOKEN);
    assert_eq!(app.output(&private, "private", "cat file").await.unwrap(), "three\n");
    let plain = Seed::Git(GitSeed { allow_http: true, url: format!("http://{NAME}/project.git"), ..git("") });
    assert_eq!(app.output(&plain, "plain", "cat file").await.unwrap(), "three\n");

    let off = App::with_network(server.home().set("SANDBOXD_REPOSITORIES_MB", "0")).await;
    let seed = Seed::Git(git("project.git"));
    let head = off.output(&seed, "off", "cat file; git rev-parse --abbrev-ref HEAD").await.unwrap();
    assert_eq!(head, "three\nmain\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_those_of_a_clone() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    server.repository("empty", "").await;
    server.repository("large", "head -c 3000000 /dev/zero >zeros; git add -A; git commit -qm x").await;
    let app = App::with_network(server.home()).await;
    let error = async |seed: &Seed, chat| seed_error(app.output(seed, chat, "true").await.unwrap_err());
    let missing = error(&Seed::Git(git("nowhere.git")), "1").await;
    assert!(matches!(*missing, Error::NoRepository), "{missing:?}");
    let private = error(&Seed::Git(git("private/project.git")), "2").await;
    assert!(matches!(*private, Error::NeedsCredentials), "{private:?}");
    let revision = error(&at("project.git", "nowhere"), "3").await;
    assert!(matches!(*revision, Error::NoRevision { .. }), "{revision:?}");
    let empty = error(&Seed::Git(git("empty.git")), "4").await;
    assert!(matches!(*empty, Error::EmptyRepository), "{empty:?}");
    // The daemon permits more than the app.
    for _ in 0..2 {
        let large = error(&Seed::Git(git("large.git")), "5").await;
        assert!(matches!(*large, Error::RepositoryTooLarge { .. }), "{large:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_of_the_seed_is_not_that_of_the_repository() {
    let Some(server) = GitServer::start().await else { return };
    let hostile = "mkdir .remcochat; echo forged >.remcochat/seeded; ln -s /tmp .remcochat/lock; echo x >file
        git add -A -f; git commit -qm x";
    server.repository("hostile", hostile).await;
    let app = App::without_network(server.home()).await;
    let seed = at("hostile.git", "main");
    let found = app
        .output(
            &seed,
            "1",
            "cat file; test -f .remcochat/lock; ls -A .remcochat; grep -c forged .remcochat/seeded",
        )
        .await;
    assert_eq!(found.unwrap(), "x\nlock\nseeded\n0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_provider_clones() {
    let fixture = Fixture::vercel().await;
    let repository = bash_tools::provider::Repository { url: format!("https://{NAME}/x"), revision: None };
    let opened = fixture.provider.open_with(&key("1"), &repository).await.unwrap();
    assert!(matches!(opened, bash_tools::provider::OpenedWith::Unavailable { .. }), "{opened:?}");
    assert_eq!(fixture.provider.find(&key("1")).await.unwrap(), None, "nothing was created");
}
