//! Directories that the operator allows.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox_api::ErrorCode;
use sandbox_api::repository::{RepositoryRan, RunInRepository};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, WorkspaceSource};
use serde_json::json;
use tempfile::TempDir;

use super::{error_of, in_repository, run_at};
use crate::projects::client_of;
use crate::support::harness::{Daemon, Home};
use crate::surfaces::mcp_client::Mcp;

/// Two commits and a change that is in neither. The first commit has the tag `v1.0.0`.
const TWO_COMMITS: &str = "git init -q -b main; echo one >file; git add .; git commit -qm one; git tag -a -m x v1.0.0
    git rev-parse HEAD; echo two >file; git commit -qam two; git rev-parse HEAD; echo three >file; echo secret >.env";

/// Runs a script in a directory. Returns its output.
fn bash(dir: &Path, script: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", script]).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{role}_NAME"), "me").env(format!("GIT_{role}_EMAIL"), "me@git.example");
    }
    let ran = bash.stderr(Stdio::inherit()).output().unwrap();
    assert!(ran.status.success(), "{script}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A daemon whose operator allows a directory as `dir:app`.
fn home(dir: &TempDir) -> Home {
    Home::new().set("SANDBOXD_REPOSITORY_DIRECTORIES", &format!("app={}", dir.path().display()))
}

async fn run(daemon: &Daemon, command: &str) -> RepositoryRan {
    daemon.client.run_in_repository(&in_repository("dir:app", command)).await.unwrap()
}

#[tokio::test]
async fn a_commit_of_a_git_directory_is_read_by_any_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let commits = bash(dir.path(), TWO_COMMITS);
    let (one, two) = commits.trim().split_once('\n').unwrap();
    let daemon = Daemon::start_in(home(&dir)).await;

    let ran = run(&daemon, "cat file; ls -A; git log --format=%H; git status --short; git remote").await;
    assert_eq!(
        ran.stdout,
        format!("two\n.git\nfile\n{two}\n"),
        "what is not committed is not there: {ran:?}"
    );
    assert_eq!((ran.resolved_ref.as_str(), ran.branch.as_deref(), ran.cached), (two, Some("main"), false));
    assert_eq!((ran.repository.as_str(), ran.warnings.as_slice()), ("dir:app", &[][..]));
    for name in ["main", "refs/heads/main", two, &two[..10]] {
        let ran = run_at(&daemon, "dir:app", name, "cat file").await;
        assert_eq!((ran.stdout.as_str(), ran.cached), ("two\n", true), "{name}");
    }
    let ran = run_at(&daemon, "dir:app", "v1.0.0", "cat file").await;
    assert_eq!((ran.stdout.as_str(), ran.resolved_ref.as_str(), ran.cached), ("one\n", one, false));
    let version = RunInRepository { version: Some("1.0.0".into()), ..in_repository("dir:app", "cat file") };
    let ran = daemon.client.run_in_repository(&version).await.unwrap();
    assert_eq!((ran.stdout.as_str(), ran.cached), ("one\n", true));

    // A new commit is there at once.
    let three = bash(dir.path(), "git commit -qam three; git rev-parse HEAD");
    assert_eq!(run(&daemon, "cat file").await.resolved_ref, three.trim());
    assert_eq!(error_of(&daemon.client, "dir:app", Some("nothing")).await, ErrorCode::TagNotFound);
    let unknown = "0".repeat(40);
    assert_eq!(error_of(&daemon.client, "dir:app", Some(&unknown)).await, ErrorCode::TagNotFound);
    let mut helpers = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    helpers.retain(|sandbox| sandbox.session_key.contains("fetch:"));
    assert!(helpers.is_empty(), "{helpers:?}");
}

#[tokio::test]
async fn a_tag_that_is_only_in_a_pack_is_found_by_its_fetch() {
    let dir = tempfile::tempdir().unwrap();
    // Git keeps the tag's own hash in a file, and the object in a pack, as after a large fetch.
    let script = "git init -q -b main; echo x >file; git add .; git commit -qm x; git tag -a -m x v1
        tag=$(git rev-parse v1); git gc -q; git update-ref -d refs/tags/v1; git update-ref refs/tags/v1 $tag
        git rev-parse HEAD; test -e .git/refs/tags/v1; ! test -e .git/objects/${tag:0:2}";
    let commit = bash(dir.path(), script);
    let daemon = Daemon::start_in(home(&dir)).await;
    for is_cached in [false, true] {
        let ran = run_at(&daemon, "dir:app", "v1", "cat file; git rev-parse HEAD").await;
        assert_eq!((ran.stdout, ran.cached), (format!("x\n{commit}"), is_cached));
        assert_eq!(ran.resolved_ref, commit.trim());
    }
    assert!(run_at(&daemon, "dir:app", commit.trim(), "true").await.cached);
}

#[tokio::test]
async fn the_files_of_another_directory_are_those_of_now() {
    let dir = tempfile::tempdir().unwrap();
    bash(
        dir.path(),
        "mkdir -p sub/empty; echo one >sub/file; ln -s /etc/passwd outside; printf '#!/bin/sh\necho ran' >run; chmod +x run",
    );
    let daemon = Daemon::start_in(home(&dir)).await;
    let first = run(&daemon, "cat sub/file; readlink outside; ./run; ls -A . sub/empty").await;
    assert_eq!(first.stdout, "one\n/etc/passwd\nran\n.:\noutside\nrun\nsub\n\nsub/empty:\n", "{first:?}");
    assert_eq!((first.cached, first.branch.as_deref(), first.tags.len()), (false, None, 0));
    let again = run(&daemon, "true").await;
    assert_eq!((again.cached, &again.resolved_ref), (true, &first.resolved_ref));

    fs::write(dir.path().join("sub/file"), "two\n").unwrap();
    let second = run(&daemon, "cat sub/file").await;
    assert_eq!((second.stdout.as_str(), second.cached), ("two\n", false));
    fs::write(dir.path().join("sub/file"), "one\n").unwrap();
    let third = run(&daemon, "cat sub/file").await;
    assert_eq!((third.stdout.as_str(), third.cached), ("one\n", true), "the same content is the same base");

    for name in ["main", &first.resolved_ref] {
        assert_eq!(error_of(&daemon.client, "dir:app", Some(name)).await, ErrorCode::TagNotFound, "{name}");
    }
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert!(run(&daemon, "true").await.cached, "after a restart too");
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_and_models_have_the_files_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x\n").unwrap();
    let daemon = Daemon::start_in(home(&dir)).await;
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        workspace: Some(WorkspaceSource::repository("dir:app")),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    assert_eq!(daemon.output(&sandbox, "cat file; echo y >file; cat file").await, "x\ny\n");
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "x\n", "the sandbox has a copy");
    let arguments = json!({ "repository": "dir:app", "command": "cat file" });
    assert_eq!(Mcp::of(&daemon).result("repository_bash", arguments).await["stdout"], "x\n");
    let repo =
        daemon.home.program(&["repo", "--url", &daemon.base, "dir:app", "--", "cat", "file"]).output().await;
    assert_eq!(repo.unwrap().stdout, b"x\n");
    daemon.stop().await;
}

#[tokio::test]
async fn only_allowed_directories_are_found_by_allowed_projects() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x\n").unwrap();
    let daemon = Daemon::start_in(home(&dir)).await;
    let client = &daemon.client;
    assert_eq!(error_of(client, "dir:other", None).await, ErrorCode::RepoNotFound);
    for name in ["dir:", "dir:/etc", "dir:../app", "dir:App", "dir:app/sub"] {
        assert_eq!(error_of(client, name, None).await, ErrorCode::InvalidRequest, "{name}");
    }
    let ran = run(&daemon, "cat file").await;
    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    assert_eq!(error_of(&lab, "dir:app", None).await, ErrorCode::RepoNotFound);
    assert_eq!(error_of(&lab, "dir:app", Some(&ran.resolved_ref)).await, ErrorCode::RepoNotFound);

    let home = daemon.stop().await.set("SANDBOXD_REPOSITORY_DIRECTORY_PROJECTS", "lab");
    let daemon = Daemon::start_in(home).await;
    let lab = client_of(&daemon, "lab", None, &["use"]).await;
    assert!(lab.run_in_repository(&in_repository("dir:app", "cat file")).await.unwrap().cached);
    assert_eq!(
        error_of(&daemon.client, "dir:app", None).await,
        ErrorCode::RepoNotFound,
        "although it is kept"
    );
    fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(error_of(&lab, "dir:app", None).await, ErrorCode::Unavailable);
}

/// Everything of git that could execute something or read another directory, on the daemon's machine or in a sandbox.
const HOSTILE: &str = r#"
    git init -q -b main
    printf '* filter=evil\n' >.gitattributes; printf '* filter=evil\n' >.git/info/attributes; echo text >a.txt
    ln -s /etc/hostname outside; ln -s ../../../.. up
    git add .; git commit -qm one; git worktree add -q tree
    printf '#!/bin/sh\necho ran >%s/ran\n' "$PWD" | tee .git/hooks/post-checkout .git/hooks/post-index-change >run
    chmod +x .git/hooks/* run
    git config filter.evil.smudge "$PWD/run"; git config filter.evil.process "$PWD/run"
    git config core.fsmonitor "$PWD/run"; git config core.alternateRefsCommand "$PWD/run"
    git config core.sshCommand "$PWD/run"; git config uploadpack.packObjectsHook "$PWD/run"
    git config core.hooksPath "$PWD/.git/hooks"; printf '[include]\n\tpath = /etc/shadow\n' >include
    git config remote.origin.promisor true; git config extensions.partialClone origin
    git config core.gitProxy "$PWD/run"; git config safe.directory "$PWD"
    cat include >>.git/config
    mkfifo .git/refs/heads/fifo .git/objects/fifo; ln -s /etc .git/objects/etc; ln -s /etc/passwd .git/refs/heads/link
"#;

#[tokio::test]
async fn nothing_of_a_directory_is_executed_or_followed() {
    let dir = tempfile::tempdir().unwrap();
    bash(dir.path(), HOSTILE);
    let daemon = Daemon::start_in(home(&dir)).await;
    let look = "cat a.txt; cat .git/info/attributes; readlink outside up; ls .git/hooks; git config --list --local | grep -v ^core; \
                git status --short; find / -name ran -newer /etc/hostname 2>/dev/null";
    let ran = run_at(&daemon, "dir:app", "main", look).await;
    assert_eq!(ran.stdout, "text\n/etc/hostname\n../../../..\n", "{ran:?}");
    assert!(!dir.path().join("ran").exists());
    for name in ["fifo", "link"] {
        assert_eq!(error_of(&daemon.client, "dir:app", Some(name)).await, ErrorCode::TagNotFound, "{name}");
    }

    // A linked work tree names a path elsewhere, and so may borrowed objects.
    bash(dir.path(), "echo /etc >.git/objects/info/alternates");
    assert_eq!(error_of(&daemon.client, "dir:app", None).await, ErrorCode::Refused);
    let tree = Home::new()
        .set("SANDBOXD_REPOSITORY_DIRECTORIES", &format!("app={}", dir.path().join("tree").display()));
    let daemon = Daemon::start_in(tree).await;
    assert_eq!(error_of(&daemon.client, "dir:app", None).await, ErrorCode::Refused);
}

#[tokio::test]
async fn special_files_are_skipped_and_large_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    bash(
        dir.path(),
        "mkfifo fifo; echo x >file; printf 'a\\nb' >$'new\\nline'; echo y >./-rf; mkdir $'\\xff'; ln -s fifo link",
    );
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let daemon = Daemon::start_in(home(&dir).set("SANDBOXD_REPOSITORY_MAX_MB", "2")).await;
    let ran = run(&daemon, "cat file; cat ./-rf; wc -l <$'new\\nline'; ls -A | wc -l; readlink link").await;
    assert_eq!((ran.stdout.as_str(), ran.warnings), ("x\ny\n1\n6\nfifo\n", vec!["skipped".to_owned()]));
    fs::File::create(dir.path().join("huge")).unwrap().set_len(3 << 20).unwrap();
    assert_eq!(error_of(&daemon.client, "dir:app", None).await, ErrorCode::TooLarge);
    // Objects of git count likewise.
    bash(
        dir.path(),
        "rm fifo huge; git init -q; head -c 3M /dev/urandom >large; git add .; git commit -qm x",
    );
    assert_eq!(error_of(&daemon.client, "dir:app", None).await, ErrorCode::TooLarge);
    let left = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(left.len(), 1, "the one of the first command: {left:?}");
}
