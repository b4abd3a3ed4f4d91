//! Directories with files of every kind, and repositories that git has created.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use futures::StreamExt;
use sandboxd_model::repository::GitRef;
use tempfile::TempDir;

use super::*;

const MAX_BYTES: u64 = 1024 * 1024;

fn directory(dir: &TempDir) -> Directory {
    Directory::new(dir.path(), MAX_BYTES)
}

/// Runs a script in a directory, with git's own settings only.
fn bash(dir: &TempDir, script: &str) -> String {
    let script = format!("set -e; {script}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{who}_NAME"), "me").env(format!("GIT_{who}_EMAIL"), "me@git.example");
    }
    let ran = bash.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

async fn digest(dir: &TempDir) -> Result<DirectoryDigest, Error> {
    match directory(dir).contents(None).await? {
        DirectoryContents::Files(digest) => Ok(digest),
        DirectoryContents::Repository(refs) => panic!("{refs:?}"),
    }
}

async fn refs(dir: &TempDir) -> Result<Advertisement, Error> {
    match directory(dir).contents(None).await? {
        DirectoryContents::Repository(refs) => Ok(refs),
        DirectoryContents::Files(digest) => panic!("{digest:?}"),
    }
}

/// The members of an archive with their contents or targets, and whether something was skipped.
async fn unpacked(directory: &Directory, of: ArchiveOf) -> Result<(Vec<(String, String)>, bool), Error> {
    let mut parts = directory.archive(of);
    let (mut bytes, mut end) = (Vec::new(), None);
    while let Some(part) = parts.next().await {
        match part? {
            Part::Bytes(part) => bytes.extend_from_slice(&part),
            Part::End { has_skipped } => end = Some(has_skipped),
        }
    }
    let mut members = Vec::new();
    for member in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut member = member.unwrap();
        let path = member.path().unwrap().display().to_string();
        let mut content = String::new();
        match member.link_name().unwrap() {
            Some(target) => content = format!("-> {}", target.display()),
            None => drop(std::io::Read::read_to_string(&mut member, &mut content)),
        }
        members.push((path, content));
    }
    Ok((members, end.unwrap()))
}

#[tokio::test]
async fn only_names_kinds_and_contents_identify_files() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&one, &two] {
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
    }
    let first = digest(&one).await.unwrap();
    assert_eq!(first.hash, digest(&two).await.unwrap().hash);
    let file = two.path().join("file");
    let changes: [&dyn Fn(); 4] = [
        &|| fs::write(&file, "y").unwrap(),
        &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap(),
        &|| fs::remove_dir(two.path().join("empty")).unwrap(),
        &|| fs::rename(&file, two.path().join("other")).unwrap(),
    ];
    let mut seen = vec![first.hash];
    for change in changes {
        change();
        let hash = digest(&two).await.unwrap().hash;
        assert!(!seen.contains(&hash), "{seen:?} {hash}");
        seen.push(hash);
    }
}

#[tokio::test]
async fn the_last_look_counts_only_for_files_that_have_not_changed_since() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let mut known = digest(&dir).await.unwrap();
    let is_settled = |known: &DirectoryDigest| !format!("{known:?}").contains("fingerprint: None");
    assert!(!is_settled(&known), "it changed a moment ago");
    for content in ["y", "z"] {
        // Neither the size nor, in the same moment, the time tells the difference.
        fs::write(&file, content).unwrap();
        let now = directory(&dir).contents(Some(known.clone())).await.unwrap();
        let DirectoryContents::Files(now) = now else { panic!("{now:?}") };
        assert_ne!(now.hash, known.hash);
        known = now;
        let settled = async {
            let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
            while !is_settled(&known) {
                ticks.tick().await;
                let again = directory(&dir).contents(Some(known.clone())).await.unwrap();
                let DirectoryContents::Files(again) = again else { panic!("{again:?}") };
                assert_eq!(again.hash, known.hash);
                known = again;
            }
        };
        tokio::time::timeout(limits::DIRECTORY_SETTLED * 10, settled).await.unwrap();
    }
}

#[tokio::test]
async fn an_archive_has_the_files_and_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    bash(
        &dir,
        "mkdir sub; echo x >sub/file; ln -s /etc/passwd out; ln -s .. sub/up; mkfifo fifo; echo y >-n",
    );
    let hash = digest(&dir).await.unwrap().hash;
    let (members, has_skipped) = unpacked(&directory(&dir), ArchiveOf::Files(hash.clone())).await.unwrap();
    let expected =
        [("-n", "y\n"), ("out", "-> /etc/passwd"), ("sub", ""), ("sub/file", "x\n"), ("sub/up", "-> ..")];
    assert_eq!(members, expected.map(|(path, content)| (path.to_owned(), content.to_owned())));
    assert!(has_skipped, "the FIFO");
    fs::write(dir.path().join("sub/file"), "z").unwrap();
    let changed = unpacked(&directory(&dir), ArchiveOf::Files(hash)).await;
    assert!(matches!(changed, Err(Error::Changed)), "{changed:?}");
}

#[tokio::test]
async fn limits_hold_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(matches!(digest(&dir).await, Err(Error::TooLarge { max: MAX_BYTES })));
    fs::remove_file(dir.path().join("huge")).unwrap();
    let deep = vec!["d"; limits::MAX_DIRECTORY_DEPTH + 2].join("/");
    fs::create_dir_all(dir.path().join(deep)).unwrap();
    assert!(matches!(digest(&dir).await, Err(Error::Unsupported(_))));
    let missing = Directory::new(&dir.path().join("none"), MAX_BYTES).contents(None).await;
    assert!(matches!(missing, Err(Error::Directory { .. })));
}

#[tokio::test]
async fn refs_are_found_packed_and_loose() {
    let dir = tempfile::tempdir().unwrap();
    let script = "git init -q -b main; echo x >file; git add .; git commit -qm one; git tag -a -m x v1
        git tag plain; git rev-parse HEAD; git pack-refs --all
        echo y >file; git commit -qam two; git tag -a -m y v2; git branch feature/x; git rev-parse HEAD";
    let commits = bash(&dir, script);
    let (one, two) = commits.trim().split_once('\n').unwrap();
    let refs = refs(&dir).await.unwrap();
    let of = |name: &str| refs.find(Some(&GitRef::parse("ref", name).unwrap())).unwrap().commit.to_string();
    for (name, commit) in [("v1", one), ("plain", one), ("v2", two), ("main", two), ("feature/x", two)] {
        assert_eq!(of(name), commit, "{name}");
    }
    assert_eq!(of(&two[..7]), two);
    let head = refs.find(None).unwrap();
    assert_eq!((head.commit.as_str(), head.branch.as_deref()), (two, Some("main")));
    assert_eq!(head.tags, ["v2"]);
}

#[tokio::test]
async fn only_objects_of_a_repository_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let script = "git init -q -b main; echo x >file; git add .; git commit -qm one; git repack -qad
        echo y >file; git commit -qam two; git config core.fsmonitor 'touch ran'
        printf 'touch ran' >.git/hooks/post-checkout; ln -s /etc/passwd .git/objects/pack/pack-0.pack";
    bash(&dir, script);
    let (members, _) = unpacked(&directory(&dir), ArchiveOf::Objects).await.unwrap();
    let is_object = |path: &str| {
        let path = path.strip_prefix("objects/").unwrap();
        path.ends_with(".pack") || path.ends_with(".idx") || path.len() == 41
    };
    assert!(
        members.iter().all(|(path, content)| is_object(path) && !content.starts_with("->")),
        "{members:?}"
    );
    assert_eq!(members.len(), 5, "a pack, its index, and three objects: {members:?}");
}

#[tokio::test]
async fn what_leads_out_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    bash(&dir, "git init -q -b main; git commit -q --allow-empty -m x; git worktree add -q tree");
    let tree = Directory::new(&dir.path().join("tree"), MAX_BYTES);
    assert!(matches!(tree.contents(None).await, Err(Error::Unsupported(_))), "a linked work tree");
    bash(&dir, "mkdir link bare.git; ln -s ../.git link/.git; cp -r .git/. bare.git");
    let link = Directory::new(&dir.path().join("link"), MAX_BYTES);
    assert!(matches!(link.contents(None).await, Err(Error::Unsupported(_))), "a link");
    let bare = Directory::new(&dir.path().join("bare.git"), MAX_BYTES);
    assert!(matches!(bare.contents(None).await, Ok(DirectoryContents::Repository(_))), "a bare one");
    bash(&dir, "echo /srv/objects >.git/objects/info/alternates");
    assert!(matches!(refs(&dir).await, Err(Error::Unsupported(_))), "shared objects");
    bash(&dir, "rm .git/objects/info/alternates; mkdir .git/reftable");
    assert!(matches!(refs(&dir).await, Err(Error::Unsupported(_))), "another format");
}

#[tokio::test]
async fn hostile_refs_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    bash(
        &dir,
        "git init -q -b main; git commit -q --allow-empty -m x; cd .git/refs/heads
        mkfifo fifo; ln -s /etc/passwd link; printf '../../x' >path; head -c 1000000 /dev/zero >zeros; : >empty
        echo 'ref: refs/heads/main' >symbolic; ln -s / ../tags/root
        mkdir -p ../../objects/aa; head -c 100000 /dev/urandom >../../objects/aa/$(printf 'a%.0s' $(seq 38))
        printf 'a%.0s' $(seq 40) >odd",
    );
    let refs = refs(&dir).await.unwrap();
    let names: Vec<&str> = refs.refs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["refs/heads/main", "refs/heads/odd"]);
    bash(&dir, "printf 'a%.0s' $(seq 64) >.git/refs/heads/long");
    assert!(matches!(directory(&dir).contents(None).await, Err(Error::Unsupported(_))), "SHA-256");
}
