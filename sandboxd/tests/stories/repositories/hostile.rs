//! Repositories whose files attack the fetch and their readers.

use test_git::GitServer;

use super::{home, run_at};
use crate::support::harness::Daemon;

/// Filters, hooks, links that lead outside, submodules and files in Git LFS.
const HOSTILE: &str = r#"
    mkdir .githooks; printf '#!/bin/sh\ntouch "$(git rev-parse --show-toplevel)/ran"\n' >.githooks/post-checkout
    chmod +x .githooks/post-checkout
    git config filter.evil.smudge 'touch ran; cat'; git config filter.evil.clean cat; git config core.hooksPath .githooks
    printf '*.txt filter=evil\n*.bin filter=lfs -text\n' >.gitattributes
    echo text >a.txt; printf 'version https://git-lfs.github.com/spec/v1\n' >large.bin
    ln -s /etc/passwd outside; ln -s ../../../.. up; ln -s .git/config gitconfig
    printf '[core]\n\tfsmonitor = touch ran\n\thooksPath = .githooks\n' >.gitconfig
    printf '[submodule "x"]\n\tpath = sub\n\turl = file:///etc\n' >.gitmodules
    git add .; git commit -qm one
    git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),sub"; git commit -qm two
"#;

#[tokio::test]
async fn nothing_of_a_repository_is_executed() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", HOSTILE).await;
    let daemon = Daemon::start_in(home(&server)).await;
    let look = "test ! -e ran; find / -name ran -newer /etc/hostname 2>/dev/null; ls -d sub; ls -A sub; cat a.txt; git status --short";
    let ran = run_at(&daemon, "owner/name", "main", look).await;
    let outputs = (ran.stdout.as_str(), ran.stderr.as_str());
    assert_eq!((ran.exit_code, outputs), (0, ("sub\ntext\n", "")), "{ran:?}");
    assert_eq!(ran.warnings, ["submodules", "lfs"]);
    // The link leads to the file of the sandbox.
    let outside = run_at(&daemon, "owner/name", "main", "cmp outside /etc/passwd && readlink up").await;
    assert_eq!((outside.exit_code, outside.stdout.as_str()), (0, "../../../..\n"), "{outside:?}");
}

#[tokio::test]
async fn the_files_know_only_the_public_address() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let look = "git remote get-url origin; grep -r repository.internal .git; ls .git/hooks; git config --list --local | grep -v ^core";
    let ran = run_at(&daemon, "owner/name", "main", look).await;
    let address = "https://git.example/owner/name.git";
    let origin =
        format!("remote.origin.url={address}\nremote.origin.fetch=+refs/heads/*:refs/remotes/origin/*\n");
    assert_eq!(ran.stdout, format!("{address}\n{origin}"), "{ran:?}");
}
