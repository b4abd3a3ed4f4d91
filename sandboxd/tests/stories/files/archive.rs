//! Archives: a packed tree is unpacked unchanged, and a hostile archive changes nothing.

use std::io::Write;

use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{ArchiveFormat, Error};
use tar::{Builder, EntryType, Header};

use crate::support::files::no_partial_write_is_left;
use crate::support::harness::{Daemon, over_each_transport};

const MIB: usize = 1024 * 1024;

over_each_transport!(a_packed_tree_is_unpacked_unchanged, a_rejected_archive_changes_nothing);

/// A tree with every kind of entry that an archive keeps.
const TREE: &str = "mkdir -p tree/empty tree/sub/deep; cd tree; printf '%0200000d' 7 > sub/large; echo x > sub/deep/tool
chmod 755 sub/deep/tool; chmod 600 sub/large; ln -s sub/large link; ln -s ../../sub sub/deep/up; touch -d @1000000000 sub/deep/tool; chmod 700 empty; chmod 555 sub/deep
printf bytes > $'latin-\\xe9'; echo long > sub/$(printf 'n%.0s' $(seq 200)); mkfifo pipe";

/// All metadata of a tree except its fifo, which no archive contains.
const LOOK: &str = "find . ! -name pipe ! -type d -printf '%P %y %m %l %s\\n' -o -mindepth 1 -type d -printf '%P d %m\\n' | LC_ALL=C sort | cat -v; find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | cat -v; stat -c %Y sub/deep/tool";

async fn a_packed_tree_is_unpacked_unchanged(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, TREE).await;
    let expected = daemon.output(&sandbox, &format!("cd tree; {LOOK}")).await;
    for format in [ArchiveFormat::Tar, ArchiveFormat::TarGz, ArchiveFormat::TarZst] {
        let packed =
            daemon.client.pack_files(&sandbox, "tree", format).await.unwrap().bytes(64 * MIB).await.unwrap();
        let unpacked = daemon.client.unpack_files(&sandbox, "copies/new", packed.clone()).await.unwrap();
        assert_eq!(unpacked.files, 4, "{format:?}");
        assert_eq!(daemon.output(&sandbox, &format!("cd copies/new; {LOOK}")).await, expected, "{format:?}");
        // Unpacking over the existing tree gives the same result.
        daemon.output(&sandbox, "chmod u+w copies/new/sub/deep").await;
        daemon.client.unpack_files(&sandbox, "copies/new", packed).await.unwrap();
        assert_eq!(
            daemon.output(&sandbox, &format!("cd copies/new; {LOOK}; chmod -R u+w .; rm -r ../new")).await,
            expected
        );
    }
    no_partial_write_is_left(daemon, &sandbox).await;
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header
}

/// An archive whose first member is harmless and whose second has the given name and target.
fn archive(kind: EntryType, name: &[u8], target: &[u8], content: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    builder.append_data(&mut header(EntryType::Regular, 1), "first", &b"1"[..]).unwrap();
    let mut hostile = header(kind, content.len() as u64);
    hostile.as_mut_bytes()[..name.len()].copy_from_slice(name);
    hostile.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target);
    hostile.set_cksum();
    builder.append(&hostile, content).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn unpack(daemon: &Daemon, sandbox: &SandboxId, archive: Vec<u8>) -> Result<u64, Error> {
    daemon.client.unpack_files(sandbox, "to", archive).await.map(|unpacked| unpacked.files)
}

async fn a_rejected_archive_changes_nothing(daemon: &Daemon) {
    use EntryType::{Block, Char, Fifo, Link, Regular, Symlink};
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir to; echo before > to/first; ln -s /etc to/etc; mkdir to/dir").await;
    let look = "find to -printf '%P %y %s\\n' | sort; cat to/first";
    let before = daemon.output(&sandbox, look).await;
    let whole = archive(Regular, b"second", b"", &[7; 5000]);
    let hostile: [(&str, Vec<u8>); 17] = [
        ("a slip", archive(Regular, b"../out", b"", b"x")),
        ("a slip in the middle", archive(Regular, b"a/../../out", b"", b"x")),
        ("an absolute name", archive(Regular, b"/etc/passwd", b"", b"x")),
        ("a link out", archive(Symlink, b"l", b"/etc", b"")),
        ("a link up and out", archive(Symlink, b"l", b"../../etc", b"")),
        ("a member through a link that is there", archive(Regular, b"etc/passwd", b"", b"x")),
        ("a hard link out", archive(Link, b"l", b"/etc/passwd", b"")),
        ("a hard link to nothing", archive(Link, b"l", b"nothing", b"")),
        ("a device", archive(Char, b"null", b"", b"")),
        ("another device", archive(Block, b"sda", b"", b"")),
        ("a fifo", archive(Fifo, b"fifo", b"", b"")),
        ("a file in the place of a directory", archive(Regular, b"dir", b"", b"x")),
        ("what is cut off", whole[..whole.len() - 3000].to_vec()),
        ("what has no end mark", whole[..whole.len() - 1024].to_vec()),
        ("what is cut off under compression", gzip(&whole)[..60].to_vec()),
        ("no archive", b"not an archive at all".to_vec()),
        ("nothing", Vec::new()),
    ];
    for (what, archive) in hostile {
        let refused = unpack(daemon, &sandbox, archive).await.unwrap_err();
        let code = refused.code().unwrap_or_else(|| panic!("{what}: {refused:?}"));
        assert!(matches!(code, ErrorCode::Refused | ErrorCode::AlreadyExists), "{what}: {refused}");
        assert_eq!(daemon.output(&sandbox, look).await, before, "{what}");
    }
    no_partial_write_is_left(daemon, &sandbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_bomb_stays_within_the_quota_and_leaves_nothing() {
    let daemon = Daemon::start().await;
    let resources = Resources { disk_mb: Some(128), ..Resources::default() };
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        resources: Some(resources),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.create(&request).await;
    daemon.output(&sandbox, "mkdir to; echo before > to/first").await;
    // A gibibyte of zeros in a mebibyte, and a hole of a tebibyte in two blocks.
    let zeros = vec![0; 8 * MIB];
    let mut builder = Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for at in 0..128 {
        builder
            .append_data(
                &mut header(EntryType::Regular, zeros.len() as u64),
                format!("bomb/{at}"),
                &zeros[..],
            )
            .unwrap();
    }
    let bomb = builder.into_inner().unwrap().finish().unwrap();
    let mut hole = header(EntryType::GNUSparse, 512);
    hole.as_gnu_mut().unwrap().set_real_size(1 << 40);
    let sparse = &mut hole.as_gnu_mut().unwrap().sparse[0];
    sparse.set_offset((1 << 40) - 512);
    sparse.set_length(512);
    let mut builder = Builder::new(Vec::new());
    hole.set_path("hole").unwrap();
    hole.set_cksum();
    builder.append(&hole, &[7; 512][..]).unwrap();
    for (what, archive) in [("a bomb", bomb), ("a hole", builder.into_inner().unwrap())] {
        let refused = unpack(&daemon, &sandbox, archive).await.unwrap_err();
        let code = refused.code();
        assert!(
            matches!(code, Some(ErrorCode::InsufficientStorage | ErrorCode::TooLarge)),
            "{what}: {refused:?}"
        );
        assert_eq!(daemon.output(&sandbox, "cat to/first; ls to").await, "before\nfirst\n", "{what}");
    }
    no_partial_write_is_left(&daemon, &sandbox).await;
    daemon.output(&sandbox, "head -c 50M /dev/zero > fits").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_members_or_levels_are_rejected() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut many = Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut same = header(EntryType::Regular, 0);
    same.set_path("same").unwrap();
    same.set_cksum();
    for _ in 0..200_001 {
        many.append(&same, std::io::empty()).unwrap();
    }
    let many = many.into_inner().unwrap().finish().unwrap();
    let refused = unpack(&daemon, &sandbox, many).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::TooLarge), "{refused}");
    let mut deep = Builder::new(Vec::new());
    let path = format!("{}file", "d/".repeat(200));
    deep.append_data(&mut header(EntryType::Regular, 0), path, std::io::empty()).unwrap();
    let refused = unpack(&daemon, &sandbox, deep.into_inner().unwrap()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Refused), "{refused}");
    assert_eq!(daemon.output(&sandbox, "ls -A").await, "");
    no_partial_write_is_left(&daemon, &sandbox).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_never_silently_omits_unreadable_files() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir tree; echo 1 > tree/a; echo 1 > tree/secret; chmod 0 tree/secret").await;
    let refused = daemon.client.pack_files(&sandbox, "tree", ArchiveFormat::Tar).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Refused), "{refused:?}");
    assert!(refused.to_string().contains("tree/secret\" could not be used: Permission denied"), "{refused}");
    // An error after the first bytes can no longer be reported by a status.
    daemon.output(&sandbox, "head -c 20M /dev/urandom > tree/b").await;
    let begun = daemon.client.pack_files(&sandbox, "tree", ArchiveFormat::TarZst).await.unwrap();
    assert!(begun.bytes(64 * MIB).await.is_err());
    daemon.output(&sandbox, "chmod 600 tree/secret").await;
    let packed = daemon.client.pack_files(&sandbox, "tree", ArchiveFormat::TarZst).await.unwrap();
    packed.bytes(64 * MIB).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_files_and_sparse_files_can_be_packed() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir dir; echo 1 > dir/one; truncate -s 3M dir/holes").await;
    let one = daemon.client.pack_files(&sandbox, "dir/one", ArchiveFormat::Tar).await.unwrap();
    let one = one.bytes(MIB).await.unwrap();
    let mut archive = tar::Archive::new(&one[..]);
    let names: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["one"]);
    // As tar(1) packs it, with the hole recorded and not filled.
    daemon.output(&sandbox, "tar -cSf sparse.tar dir").await;
    let sparse = daemon.client.get_file(&sandbox, "sparse.tar", None).await.unwrap();
    daemon.client.unpack_files(&sandbox, "copy", sandbox_client::upload_stream(sparse)).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "diff -r dir copy/dir && echo same").await, "same\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_modules_and_git_repositories_are_archived_completely() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(&sandbox, "git init -q . && git config user.email a@b && git config user.name a && mkdir -p node_modules/.bin node_modules/tool && echo '#!/usr/bin/env node' > node_modules/tool/cli.js && chmod +x node_modules/tool/cli.js && ln -s ../tool/cli.js node_modules/.bin/tool && git add -A && git commit -qm first")
        .await;
    let packed = daemon.client.pack_files(&sandbox, "", ArchiveFormat::TarZst).await.unwrap();
    let other = daemon.sandbox("chat:2").await;
    daemon.client.unpack_files(&other, "", sandbox_client::upload_stream(packed)).await.unwrap();
    assert_eq!(
        daemon
            .output(
                &other,
                "git status --porcelain; git fsck 2>&1; node_modules/.bin/tool; git log --format=%s"
            )
            .await,
        "first\n"
    );
    daemon.stop().await;
}
