//! A chat begins with a repository.

use std::time::Duration;

use bash_tools::seed::{Error, GitCredentials, GitSeed, GitUrlFault, Seed, SeedState};
use bash_tools::session::{self, SessionState};
use bash_tools::tools::Toolkit;
use futures::future::join_all;
use test_daemon::until;

use crate::place::{key, limits, run};
use crate::seed::Ground;
use crate::seed_server::{ELSEWHERE, GitServer, NAME, TOKEN};

/// With a branch, tags, and a commit that has no name.
const PROJECT: &str = "
  echo one >file; mkdir -p dir 'a b'; echo run >dir/tool; chmod +x dir/tool; ln -s dir/tool link; echo x >'a b/é'
  git add -A; git commit -qm one; git tag v1; git rev-parse HEAD
  echo two >file; git commit -qam two; git rev-parse HEAD
  echo three >file; git commit -qam three; git tag -a v3 -m v3
  git checkout -q -b feature/x v1; echo x >file; git commit -qam x; git update-ref refs/pull/7/head HEAD~
  git checkout -q main";

/// Whether it is the error that a case is about.
type Wanted = fn(&Error) -> bool;

fn git(path: &str) -> GitSeed {
    GitSeed {
        url: format!("https://{NAME}/{path}"),
        revision: None,
        credentials: None,
        allow_http: false,
        timeout: Duration::from_secs(60),
        max_bytes: 1 << 20,
    }
}

fn at(path: &str, revision: &str) -> Seed {
    Seed::Git(GitSeed { revision: Some(revision.into()), ..git(path) })
}

fn with_token(path: &str, token: &str) -> Seed {
    Seed::Git(GitSeed { credentials: Some(GitCredentials::token(token.into())), ..git(path) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_there_as_if_it_had_been_cloned() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let sandbox = ground.sandbox("1").await;
    let (planted, told) = ground.plant_telling(&sandbox, &Seed::Git(git("project.git"))).await;
    planted.unwrap();
    assert_eq!(ground.files(&sandbox).await, ".git a b dir file link ");
    let told = told.join("\n");
    for step in ["looking at the repository", "fetching", "Receiving objects: 100%", "checking out"] {
        assert!(told.contains(step), "{told}");
    }
    let look = "cat file; ./link; cat 'a b/é'; git status --porcelain --branch; git log --oneline | wc -l
                git remote -v | head -1; echo more >>file; git commit -qam more && echo committed";
    let look = format!(
        "export GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me\n{look}"
    );
    let wanted = format!(
        "three\nx\n## main...origin/main\n1\norigin\thttps://{NAME}/project.git (fetch)\ncommitted\n"
    );
    assert_eq!(ground.output(&sandbox, &look.replace("./link; ", "test -x link && ")).await, wanted);
    assert_eq!(ground.output(&sandbox, "ls -A .remcochat").await, "lock\nseeded\n");

    // Never again, whatever is asked for later.
    let asked = server.asked().len();
    ground.plant(&sandbox, &Seed::Git(git("project.git"))).await.unwrap();
    ground.plant(&sandbox, &at("project.git", "v1")).await.unwrap();
    ground.plant(&sandbox, &Seed::Git(git("nowhere.git"))).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file").await, "three\nmore\n");
    assert_eq!(server.asked().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_a_branch_a_tag_or_a_commit() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("project", PROJECT).await;
    let commits: Vec<&str> = commits.lines().collect();
    let (first, second) = (commits[0], commits[1]);
    let ground = Ground::in_home(server.home()).await;
    let short = &second[..8];
    let cases = [
        ("project.git", "main", "three", "main"),
        ("project.git", "HEAD", "three", "main"),
        ("project.git", "feature/x", "x", "feature/x"),
        ("project.git", "v1", "one", "HEAD"),
        ("project.git", "v3", "three", "HEAD"),
        ("project.git", "refs/pull/7/head", "one", "HEAD"),
        ("project.git", second, "two", "HEAD"),
        ("project.git", short, "two", "HEAD"),
        // Which gives no commits but those that have names.
        ("old/project.git", second, "two", "HEAD"),
        ("old/project.git", first, "one", "HEAD"),
        ("old/project.git", "feature/x", "x", "feature/x"),
    ];
    for (path, revision, content, head) in cases {
        let sandbox = ground.sandbox(revision).await;
        let look = "cat file; git rev-parse --abbrev-ref HEAD; git status --porcelain; git tag";
        ground
            .plant(&sandbox, &at(path, revision))
            .await
            .unwrap_or_else(|error| panic!("{revision}: {error}"));
        let found = ground.output(&sandbox, look).await;
        assert!(found.starts_with(&format!("{content}\n{head}\n")), "{path} {revision}: {found}");
        ground.provider.delete(&sandbox).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_git_must_not_see_is_refused_before_anything_runs() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let sandbox = ground.sandbox("1").await;
    let urls = [
        ("--upload-pack=touch pwned", GitUrlFault::OddCharacter),
        ("--upload-pack=touch", GitUrlFault::NoUrl),
        ("ext::sh -c touch% pwned", GitUrlFault::OddCharacter),
        ("ext::touch", GitUrlFault::Scheme),
        ("file:///etc", GitUrlFault::Scheme),
        ("ssh://git.example/x", GitUrlFault::Scheme),
        ("https://git.example/a\"; touch pwned; \"", GitUrlFault::OddCharacter),
        ("https://git.example/a\ntouch pwned", GitUrlFault::OddCharacter),
        ("https://git.example/a%0Ahost=evil.example", GitUrlFault::OddCharacter),
        ("http://git.example/project.git", GitUrlFault::Http),
        ("https://me:hunter2@git.example/project.git", GitUrlFault::Credentials),
    ];
    for (url, wanted) in urls {
        let seed = Seed::Git(GitSeed { url: url.into(), ..git("") });
        let error = ground.plant(&sandbox, &seed).await.unwrap_err();
        assert!(matches!(error, Error::BadGitUrl { fault } if fault == wanted), "{url}: {error:?}");
        assert!(error.to_string().contains("git_url") && !error.to_string().contains("hunter2"), "{error}");
    }
    for revision in ["--upload-pack=touch pwned", "$(touch pwned)", "main\ntouch pwned", "a'b", "main..x"] {
        let error = ground.plant(&sandbox, &at("project.git", revision)).await.unwrap_err();
        assert!(error.to_string().contains("git_revision"), "{error}");
    }
    assert_eq!(ground.output(&sandbox, "ls -A").await, "");
    assert!(server.asked().is_empty());

    // What a shell would make something of, and git does not.
    let seed = Seed::Git(GitSeed { url: format!("https://{NAME}/$(touch${{IFS}}pwned);touch"), ..git("") });
    assert!(matches!(ground.plant(&sandbox, &seed).await, Err(Error::BadGitUrl { .. })));
    let seed = Seed::Git(git("$(touch);touch&touch%20touch.git"));
    let error = ground.plant(&sandbox, &seed).await.unwrap_err();
    assert!(matches!(error, Error::NoRepository), "{error:?}");
    assert_eq!(ground.files(&sandbox).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cloned_says_why_and_leaves_nothing() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("project", PROJECT).await;
    server.repository("empty", "").await;
    let ground = Ground::in_home(server.home()).await;
    let sandbox = ground.sandbox("1").await;
    let unknown = commits.lines().next().unwrap().replace(|digit: char| digit.is_ascii_digit(), "f");
    let closed = Seed::Git(GitSeed { url: "https://198.51.100.7/x".into(), ..git("") });
    let slow = Seed::Git(GitSeed { timeout: Duration::from_secs(2), ..git("slow/project.git") });
    let cases: [(&str, Seed, Wanted); 11] = [
        ("missing", Seed::Git(git("nowhere.git")), |it| matches!(it, Error::NoRepository)),
        ("empty", Seed::Git(git("empty.git")), |it| matches!(it, Error::EmptyRepository)),
        ("private", Seed::Git(git("private/project.git")), |it| matches!(it, Error::NeedsCredentials)),
        ("wrong token", with_token("private/project.git", "wrong"), |it| {
            matches!(it, Error::CredentialsRefused { .. })
        }),
        ("revision", at("project.git", "nowhere"), |it| matches!(it, Error::NoRevision { .. })),
        ("revision of an empty one", at("empty.git", "main"), |it| matches!(it, Error::NoRevision { .. })),
        ("commit", at("project.git", &unknown), |it| matches!(it, Error::NoRevision { .. })),
        ("commit of an old server", at("old/project.git", &unknown), |it| {
            matches!(it, Error::NoRevision { .. })
        }),
        ("short commit", at("project.git", "0123456"), |it| matches!(it, Error::NoRevision { .. })),
        ("no way", closed, |it| matches!(it, Error::NotReached { .. })),
        ("slow", slow, |it| matches!(it, Error::TimedOut { .. })),
    ];
    for (case, seed, is_right) in cases {
        let error = ground.plant(&sandbox, &seed).await.unwrap_err();
        assert!(is_right(&error), "{case}: {error:?}");
        assert_eq!(ground.files(&sandbox).await, "", "{case}");
    }
    // By https to http is a way that the operator has not opened.
    let error = ground.plant(&sandbox, &Seed::Git(git("plain/project.git"))).await.unwrap_err();
    assert!(matches!(error, Error::Git { .. }), "{error:?}");
    assert_eq!(ground.files(&sandbox).await, "");
    // And none of it is in the way of what can be.
    ground.plant(&sandbox, &Seed::Git(git("project.git"))).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file; ls -A .remcochat").await, "three\nlock\nseeded\n");

    let sandbox = ground.sandbox("2").await;
    let plain = GitSeed { allow_http: true, url: format!("http://{NAME}/project.git"), ..git("") };
    ground.plant(&sandbox, &Seed::Git(plain)).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file").await, "three\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_too_large_is_given_up_in_time() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("packed", "head -c 3000000 /dev/urandom >noise; git add -A; git commit -qm x").await;
    server.repository("bomb", "head -c 30000000 /dev/zero >zeros; git add -A; git commit -qm x").await;
    // A million files of the same nothing, in a few hundred bytes.
    let trees = "tree=$(printf '100644 blob %s\\tf\\n' $(git hash-object -w /dev/null) | git mktree)
      for level in 1 2 3 4 5 6; do
        tree=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\t%s\\n' $tree $i; done | git mktree)
      done
      git update-ref refs/heads/main $(git commit-tree -m x $tree)";
    server.repository("trees", trees).await;
    let ground = Ground::in_home(server.home()).await;
    let sandbox = ground.sandbox("1").await;
    for repository in ["packed", "bomb", "trees"] {
        let error = ground.plant(&sandbox, &Seed::Git(git(&format!("{repository}.git")))).await.unwrap_err();
        assert!(
            matches!(error, Error::RepositoryTooLarge { limit_bytes: 1_048_576, .. }),
            "{repository}: {error:?}"
        );
        assert!(error.to_string().contains("max_bytes"), "{error}");
        assert_eq!(ground.files(&sandbox).await, "", "{repository}");
    }
    let most = ground.output(&sandbox, "du -s .remcochat | cut -f1").await;
    assert!(most.trim().parse::<u64>().unwrap() < 2048, "KiB: {most}");
    let packed = GitSeed { max_bytes: 3_100_000, ..git("packed.git") };
    ground.plant(&sandbox, &Seed::Git(packed)).await.unwrap();
    assert_eq!(ground.output(&sandbox, "stat -c %s noise; ls .remcochat").await, "3000000\nlock\nseeded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_its_repository_and_is_nowhere_afterwards() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let sandbox = ground.sandbox("1").await;

    // Another server gets none, even where the right one leads there.
    let error = ground.plant(&sandbox, &with_token("away/project.git", TOKEN)).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(TOKEN), "{error:?}");
    let asked = server.asked();
    assert!(asked.iter().any(|(host, ..)| host == ELSEWHERE), "{asked:?}");
    assert!(asked.iter().all(|(.., authorization)| authorization.is_none()), "{asked:?}");

    let seed = with_token("private/project.git", TOKEN);
    let (planted, told) = ground.plant_telling(&sandbox, &seed).await;
    planted.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file").await, "three\n");
    let basic = "eC1hY2Nlc3MtdG9rZW46aHVudGVyMi1odW50ZXIyLWh1bnRlcjI=";
    assert!(server.asked().iter().any(|(.., it)| it.as_deref() == Some(&format!("Basic {basic}"))));
    // A pattern that is not what it looks for, because it is to be seen itself where it is looked.
    let pattern = format!("hunter[2]-hunter2-hunter2|{}[{}]", &basic[..20], &basic[20..21]);
    let look = format!(
        "grep -rlaE '{pattern}' /vercel/sandbox /tmp; git config --list | grep -E 'credential|{pattern}'
         cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -caE '{pattern}'; env | grep -c SEED"
    );
    assert_eq!(ground.output(&sandbox, &look).await, "0\n0\n");
    assert!(!format!("{seed:?} {told:?}").contains(TOKEN));
    let history = ground.output(&sandbox, "cat ~/.bash_history ~/.git-credentials 2>/dev/null").await;
    assert_eq!(history, "");
}

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

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_planted_over_somebodys_work() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let ground = Ground::in_home(server.home()).await;
    let seed = Seed::Git(git("project.git"));
    let sandbox = ground.sandbox("1").await;
    ground.output(&sandbox, "echo mine >file").await;
    ground.plant(&sandbox, &seed).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file; ls -A").await, "mine\n.remcochat\nfile\n");

    let sandbox = ground.sandbox("2").await;
    ground.plant(&sandbox, &seed).await.unwrap();
    ground.output(&sandbox, "echo mine >file; git clean -ffdxq; rm -rf .remcochat").await;
    ground.plant(&sandbox, &seed).await.unwrap();
    assert_eq!(ground.output(&sandbox, "cat file").await, "mine\n");
}
