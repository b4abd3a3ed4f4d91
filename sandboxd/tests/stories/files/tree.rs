//! Directories: listed in pages, created, moved and removed.

use sandbox_api::ErrorCode;
use sandbox_api::files::{FileKind, MoveFile};

use crate::support::harness::{Daemon, over_each_transport};

over_each_transport!(a_list_agrees_with_ls, pages_of_a_list_miss_and_repeat_nothing);

async fn a_list_agrees_with_ls(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(&sandbox, "mkdir -p dir/sub; printf 12345 > dir/file; chmod 640 dir/file; touch -d @1000000000 dir/file; ln -s ../etc/passwd dir/link; mkfifo dir/pipe")
        .await;
    let listed = daemon.client.list_files(&sandbox, "dir", 1, 100, None).await.unwrap();
    assert_eq!(listed.next_cursor, None);
    let reported: Vec<_> = listed.entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    let expected = [
        ("dir/file", FileKind::File),
        ("dir/link", FileKind::Symlink),
        ("dir/pipe", FileKind::Other),
        ("dir/sub", FileKind::Directory),
    ];
    assert_eq!(reported, expected);
    let file = &listed.entries[0];
    assert_eq!((file.name.as_str(), file.size, file.mode), ("file", 5, 0o640));
    assert_eq!(file.modified_at.as_second(), 1_000_000_000);
    assert_eq!(listed.entries[1].target.as_deref(), Some("../etc/passwd"));
    let itself = daemon.client.stat_file(&sandbox, "dir/file").await.unwrap();
    assert_eq!(&itself, file);
    assert_eq!(daemon.client.stat_file(&sandbox, "").await.unwrap().kind, FileKind::Directory);
    for (path, code) in [("dir/file", ErrorCode::Refused), ("absent", ErrorCode::NotFound)] {
        assert_eq!(
            daemon.client.list_files(&sandbox, path, 1, 9, None).await.unwrap_err().code(),
            Some(code)
        );
    }
}

async fn pages_of_a_list_miss_and_repeat_nothing(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(
            &sandbox,
            "mkdir -p a/b a-b c; for i in $(seq 40); do touch a/$i a/b/$i a-b/$i c/$i $i; done; ln -s . loop",
        )
        .await;
    let expected =
        daemon.output(&sandbox, "find . -mindepth 1 -maxdepth 3 -printf '%P\\n' | LC_ALL=C sort").await;
    for limit in [1, 7, 10_000] {
        let (mut paths, mut cursor) = (Vec::new(), None);
        loop {
            let page = daemon.client.list_files(&sandbox, "", 3, limit, cursor.as_deref()).await.unwrap();
            assert!(page.entries.len() <= limit as usize);
            paths.extend(page.entries.into_iter().map(|entry| entry.path));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        paths.sort();
        assert_eq!(paths.join("\n") + "\n", expected, "limit {limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_created_moved_and_removed() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    assert!(client.make_dir(&sandbox, "a/b/c").await.unwrap().created);
    assert!(!client.make_dir(&sandbox, "a/b").await.unwrap().created);
    daemon.output(&sandbox, "echo 1 > a/b/c/one; echo 2 > two").await;
    let sandbox = &sandbox;
    let moved = |from: &str, to: &str, overwrite| {
        let request = MoveFile { from: from.into(), to: to.into(), overwrite };
        async move { client.move_file(sandbox, &request).await.map_err(|error| error.code().unwrap()) }
    };
    assert_eq!(moved("two", "a/b/c/one", None).await, Err(ErrorCode::AlreadyExists));
    moved("two", "a/b/c/one", Some(true)).await.unwrap();
    moved("a/b", "x/y/z", None).await.unwrap();
    assert_eq!(moved("a", "x", Some(true)).await, Err(ErrorCode::WrongState));
    let request = MoveFile { from: "a".into(), to: "x".into(), overwrite: Some(true) };
    let full = client.move_file(sandbox, &request).await.unwrap_err().to_string();
    assert!(full.contains("is not empty") && !full.contains("recursive"), "{full}");
    assert_eq!(moved("gone", "there", None).await, Err(ErrorCode::NotFound));
    assert_eq!(moved("x", "x/y/inside", None).await, Err(ErrorCode::Refused));
    assert_eq!(
        daemon.output(sandbox, "find | LC_ALL=C sort | tr '\\n' ' '; cat x/y/z/c/one").await,
        ". ./a ./x ./x/y ./x/y/z ./x/y/z/c ./x/y/z/c/one 2\n"
    );
    let full = client.delete_file(sandbox, "x", false).await.unwrap_err();
    assert_eq!(full.code(), Some(ErrorCode::WrongState));
    assert_eq!(client.delete_file(sandbox, "x", true).await.unwrap().removed, 5);
    assert_eq!(client.delete_file(sandbox, "a", false).await.unwrap().removed, 1);
    assert_eq!(client.delete_file(sandbox, "a", true).await.unwrap_err().code(), Some(ErrorCode::NotFound));
    assert_eq!(
        client.delete_file(sandbox, ".", true).await.unwrap_err().code(),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(daemon.output(sandbox, "ls -A").await, "");
    crate::support::files::no_partial_write_is_left(&daemon, sandbox).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_any_depth_and_width_can_be_removed() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let deep = "import os
os.mkdir('deep'); os.chdir('deep')
for _ in range(3000):
    os.mkdir('d'); os.chdir('d')
open('end', 'w')
os.chdir('/vercel/sandbox/workspace')
os.mkdir('wide')
for i in range(20000):
    os.mkdir(f'wide/{i}') if i % 2 else open(f'wide/{i}', 'w').close()
os.chmod('wide', 0o555)";
    let request = sandbox_api::command::StartCommand {
        cmd: Some("python3".into()),
        args: Some(vec!["-c".into(), deep.into()]),
        ..Default::default()
    };
    let made = crate::support::harness::outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(made.exit_code, 0, "{made:?}");
    assert_eq!(daemon.client.delete_file(&sandbox, "deep", true).await.unwrap().removed, 3002);
    assert_eq!(daemon.client.delete_file(&sandbox, "wide", true).await.unwrap().removed, 20_001);
    assert_eq!(daemon.output(&sandbox, "ls -A").await, "");
    daemon.stop().await;
}
