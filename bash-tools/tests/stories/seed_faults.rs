//! Repositories that cannot seed a workspace.

use std::time::Duration;

use bash_tools::seed::{Error, GitSeed, GitUrlFault, Seed};

use crate::fixture::{Fixture, key};
use crate::seed::{PROJECT, SeedFixture, at, git, with_token};
use test_git::{GitServer, NAME};

/// Whether it is the expected error.
type Wanted = fn(&Error) -> bool;

#[tokio::test(flavor = "multi_thread")]
async fn dangerous_git_arguments_are_rejected_before_anything_runs() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("project", PROJECT).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sandbox = fixture.sandbox("1").await;
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
        let error = fixture.seed_workspace(&sandbox, &seed).await.unwrap_err();
        assert!(matches!(error, Error::BadGitUrl { fault } if fault == wanted), "{url}: {error:?}");
        assert!(error.to_string().contains("git_url") && !error.to_string().contains("hunter2"), "{error}");
    }
    for revision in ["--upload-pack=touch pwned", "$(touch pwned)", "main\ntouch pwned", "a'b", "main..x"] {
        let error = fixture.seed_workspace(&sandbox, &at("project.git", revision)).await.unwrap_err();
        assert!(error.to_string().contains("git_revision"), "{error}");
    }
    assert_eq!(fixture.output(&sandbox, "ls -A").await, "");
    assert!(server.requests().is_empty());

    // Text that a shell would interpret and git does not.
    let seed = Seed::Git(GitSeed { url: format!("https://{NAME}/$(touch${{IFS}}pwned);touch"), ..git("") });
    assert!(matches!(fixture.seed_workspace(&sandbox, &seed).await, Err(Error::BadGitUrl { .. })));
    let seed = Seed::Git(git("$(touch);touch&touch%20touch.git"));
    let error = fixture.seed_workspace(&sandbox, &seed).await.unwrap_err();
    assert!(matches!(error, Error::NoRepository), "{error:?}");
    assert_eq!(fixture.files(&sandbox).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_clone_reports_why_and_leaves_nothing() {
    let Some(server) = GitServer::start().await else { return };
    let commits = server.repository("project", PROJECT).await;
    server.repository("empty", "").await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sandbox = fixture.sandbox("1").await;
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
        let error = fixture.seed_workspace(&sandbox, &seed).await.unwrap_err();
        assert!(is_right(&error), "{case}: {error:?}");
        assert_eq!(fixture.files(&sandbox).await, "", "{case}");
    }
    // The operator has not allowed a redirect from https to http.
    let error = fixture.seed_workspace(&sandbox, &Seed::Git(git("plain/project.git"))).await.unwrap_err();
    assert!(matches!(error, Error::Git { .. }), "{error:?}");
    assert_eq!(fixture.files(&sandbox).await, "");
    // The failures do not affect a later clone.
    fixture.seed_workspace(&sandbox, &Seed::Git(git("project.git"))).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file; ls -A .remcochat").await, "three\nlock\nseeded\n");

    let sandbox = fixture.sandbox("2").await;
    let plain = GitSeed { allow_http: true, url: format!("http://{NAME}/project.git"), ..git("") };
    fixture.seed_workspace(&sandbox, &Seed::Git(plain)).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "cat file").await, "three\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_is_too_large_is_abandoned_in_time() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("packed", "head -c 3000000 /dev/urandom >noise; git add -A; git commit -qm x").await;
    server.repository("bomb", "head -c 30000000 /dev/zero >zeros; git add -A; git commit -qm x").await;
    // A million identical empty files, in a few hundred bytes.
    let trees = "tree=$(printf '100644 blob %s\\tf\\n' $(git hash-object -w /dev/null) | git mktree)
      for level in 1 2 3 4 5 6; do
        tree=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\t%s\\n' $tree $i; done | git mktree)
      done
      git update-ref refs/heads/main $(git commit-tree -m x $tree)";
    server.repository("trees", trees).await;
    // Only the small current content counts, not its large history.
    let history = "head -c 3000000 /dev/urandom >noise; git add -A; git commit -qm x; git rm -q noise
      echo small >file; git add -A; git commit -qm y; git rev-parse --short HEAD";
    let short = server.repository("history", history).await;
    let fixture = SeedFixture::in_home(server.home()).await;
    let sandbox = fixture.sandbox("1").await;
    for repository in ["packed", "bomb", "trees"] {
        let error = fixture
            .seed_workspace(&sandbox, &Seed::Git(git(&format!("{repository}.git"))))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::RepositoryTooLarge { limit_bytes: 1_048_576, .. }),
            "{repository}: {error:?}"
        );
        assert!(error.to_string().contains("max_bytes"), "{error}");
        assert_eq!(fixture.files(&sandbox).await, "", "{repository}");
    }
    let error = fixture.seed_workspace(&sandbox, &at("history.git", short.trim())).await.unwrap_err();
    assert!(matches!(error, Error::RepositoryTooLarge { .. }), "{error:?}");
    let most = fixture.output(&sandbox, "du -s .remcochat | cut -f1").await;
    assert!(most.trim().parse::<u64>().unwrap() < 2048, "KiB: {most}");
    let packed = GitSeed { max_bytes: 3_100_000, ..git("packed.git") };
    fixture.seed_workspace(&sandbox, &Seed::Git(packed)).await.unwrap();
    assert_eq!(fixture.output(&sandbox, "stat -c %s noise; ls .remcochat").await, "3000000\nlock\nseeded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_no_repository_is_cloned() {
    let fixture = Fixture::docker().await;
    let sandbox = fixture.provider.open(&key("1")).await.unwrap().sandbox;
    let error = Seed::Git(git("project.git"))
        .seed_workspace(&*fixture.provider, &sandbox, true, &drop)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotReached { .. }), "{error:?}");
}
