//! Workspaces seeded from a repository.

use bash_tools::seed::{Error, Seed};
use bash_tools::session;

use crate::fixture::key;
use crate::seed::{PROJECT, SeedFixture, at, git, with_token};
use test_git::{ELSEWHERE, GitServer, NAME, TOKEN};

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_looks_like_a_clone() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sandbox = fixture.sandbox("1").await;
    let (seeded, reported) = fixture.seed_with_steps(&sandbox, &Seed::Git(git("project.git"))).await;
    seeded.unwrap();
    assert_eq!(fixture.files(&sandbox).await, ".git a b dir file link ");
    let reported = reported.join("\n");
    for step in ["looking at the repository", "fetching", "Receiving objects: 100%", "checking out"] {
        assert!(reported.contains(step), "{reported}");
    }
    let look = "cat file; ./link; cat 'a b/é'; git status --porcelain --branch; git log --oneline | wc -l
                git remote -v | head -1; echo more >>file; git commit -qam more && echo committed";
    let look = format!(
        "export GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me\n{look}"
    );
    let wanted = format!(
        "three\nx\n## main...origin/main\n1\norigin\thttps://{NAME}/project.git (fetch)\ncommitted\n"
    );
    assert_eq!(fixture.output(&sandbox, &look.replace("./link; ", "test -x link && ")).await, wanted);
    assert_eq!(fixture.output(&sandbox, "ls -A .remcochat").await, "lock\nseeded\n");

    // The seed runs only once.
    let requests_before = server.requests().len();
    fixture.seed_workspace(&sandbox, &Seed::Git(git("project.git"))).await.unwrap();
    fixture.seed_workspace(&sandbox, &at("project.git", "v1")).await.unwrap();
    fixture.seed_workspace(&sandbox, &Seed::Git(git("nowhere.git"))).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file").await, "three\nmore\n");
    assert_eq!(server.requests().len(), requests_before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_a_branch_a_tag_or_a_commit() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("project", PROJECT).await;
    let commits: Vec<&str> = commits.lines().collect();
    let (first, second) = (commits[0], commits[1]);
    let fixture = SeedFixture::in_home(server.home()).await;
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
        // This server serves only commits that have names.
        ("old/project.git", second, "two", "HEAD"),
        ("old/project.git", first, "one", "HEAD"),
        ("old/project.git", "feature/x", "x", "feature/x"),
    ];
    for (path, revision, content, head) in cases {
        let sandbox = fixture.sandbox(revision).await;
        let look = "cat file; git rev-parse --abbrev-ref HEAD; git status --porcelain; git tag";
        fixture
            .seed_workspace(&sandbox, &at(path, revision))
            .await
            .unwrap_or_else(|error| panic!("{revision}: {error}"));
        let found = fixture.output(&sandbox, look).await;
        assert!(found.starts_with(&format!("{content}\n{head}\n")), "{path} {revision}: {found}");
        fixture.provider.delete(&sandbox).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_sent_to_a_sandbox_that_was_used_before() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let seed = with_token("private/project.git", TOKEN);
    let sessions = fixture.sessions(&seed);
    let sandbox = sessions.lease(&key("1")).await.unwrap().sandbox().clone();
    fixture.output(&sandbox, "rm -rf .[!.]* *").await;
    let requests_before = server.requests().len();
    let error = fixture.sessions(&seed).lease(&key("1")).await.unwrap_err();
    assert!(matches!(&error, session::Error::Seed(seed) if matches!(**seed, Error::UsedBefore)), "{error:?}");
    assert_eq!(server.requests().len(), requests_before, "no request was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_its_repository_and_leaves_no_trace() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sandbox = fixture.sandbox("1").await;

    // Another server does not get the token, even after a redirect from the right one.
    let error = fixture.seed_workspace(&sandbox, &with_token("away/project.git", TOKEN)).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(TOKEN), "{error:?}");
    let received = server.requests();
    assert!(received.iter().any(|(host, ..)| host == ELSEWHERE), "{received:?}");
    assert!(received.iter().all(|(.., authorization)| authorization.is_none()), "{received:?}");

    let seed = with_token("private/project.git", TOKEN);
    let (seeded, reported) = fixture.seed_with_steps(&sandbox, &seed).await;
    seeded.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file").await, "three\n");
    let basic = "eC1hY2Nlc3MtdG9rZW46aHVudGVyMi1odW50ZXIyLWh1bnRlcjI=";
    assert!(server.requests().iter().any(|(.., it)| it.as_deref() == Some(&format!("Basic {basic}"))));
    // The pattern does not match itself, because the search also sees its own command line.
    let pattern = format!("hunter[2]-hunter2-hunter2|{}[{}]", &basic[..20], &basic[20..21]);
    let look = format!(
        "grep -rlaE '{pattern}' /vercel/sandbox /tmp; git config --list | grep -E 'credential|{pattern}'
         cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -caE '{pattern}'; env | grep -c SEED"
    );
    assert_eq!(fixture.output(&sandbox, &look).await, "0\n0\n");
    assert!(!format!("{seed:?} {reported:?}").contains(TOKEN));
    let history = fixture.output(&sandbox, "cat ~/.bash_history ~/.git-credentials 2>/dev/null").await;
    assert_eq!(history, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_never_overwrites_existing_files() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let seed = Seed::Git(git("project.git"));
    let sandbox = fixture.sandbox("1").await;
    fixture.output(&sandbox, "echo mine >file").await;
    fixture.seed_workspace(&sandbox, &seed).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file; ls -A").await, "mine\n.remcochat\nfile\n");

    let sandbox = fixture.sandbox("2").await;
    fixture.seed_workspace(&sandbox, &seed).await.unwrap();
    fixture.output(&sandbox, "echo mine >file; git clean -ffdxq; rm -rf .remcochat").await;
    fixture.seed_workspace(&sandbox, &seed).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file").await, "mine\n");
}
