//! Files of a base, used through the API like any other.

use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::files::{EditFile, GlobFiles, GrepFiles, MoveFile, TextEdit, WatchRecord};
use sandbox_client::{ArchiveFormat, WriteOptions};
use tokio::time::timeout;

use super::bases::{copy_of, is_over_base};
use super::snapshot;
use crate::support::harness::{Daemon, SOON, outcome, script};

const FILL: &str = "set -e; mkdir -p many src/deep; for i in $(seq 1200); do echo $i > many/$i; done
printf 'one\\ntwo\\n' > src/edited; printf 'old\\n' > src/written; echo needle > src/deep/found
echo x > src/moved; echo x > src/deleted; ln src/moved src/hard; chmod 640 src/edited; touch -d @1000000000 src/deep/found";

/// A sandbox with files, and one over a base of them.
async fn original_and_copy(daemon: &Daemon) -> (SandboxId, SandboxId) {
    let original = daemon.sandbox("chat:1").await;
    daemon.output(&original, FILL).await;
    let snapshot_id = snapshot(daemon, &original).await.snapshot.snapshot_id;
    let sandbox = copy_of(daemon, "chat:2", &snapshot_id).await;
    assert!(is_over_base(&sandbox).await);
    (original, sandbox)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_base_are_read_changed_moved_and_deleted() {
    let daemon = Daemon::start().await;
    let (original, sandbox) = original_and_copy(&daemon).await;
    let client = &daemon.client;
    assert_eq!(client.read_file(&sandbox, "many/7").await.unwrap().unwrap(), b"7\n");
    assert_eq!(
        client.stat_file(&sandbox, "src/deep/found").await.unwrap().modified_at.as_second(),
        1_000_000_000
    );
    assert_eq!(client.list_files(&sandbox, "many", 1, 2000, None).await.unwrap().entries.len(), 1200);
    let grep = GrepFiles { query: "needle".into(), ..GrepFiles::default() };
    assert_eq!(client.grep_files(&sandbox, &grep).await.unwrap().matches[0].path, "src/deep/found");

    let mut changes = client.watch_files(&sandbox, "src", true).await.unwrap();
    let replacement = TextEdit { old_text: "two".into(), new_text: "2".into(), replace_all: None };
    let edit = EditFile { path: "src/edited".into(), edits: vec![replacement], ..EditFile::default() };
    client.edit_file(&sandbox, &edit).await.unwrap();
    let etag = client.stat_file(&sandbox, "src/written").await.unwrap().etag.unwrap();
    let matching = WriteOptions { if_match: Some(&etag), ..WriteOptions::default() };
    client.put_file(&sandbox, "src/written", "new\n", matching).await.unwrap();
    let outdated = WriteOptions { if_match: Some(&etag), ..WriteOptions::default() };
    client.put_file(&sandbox, "src/written", "lost\n", outdated).await.unwrap_err();
    let moved = MoveFile { from: "src/moved".into(), to: "src/deep/moved".into(), ..MoveFile::default() };
    client.move_file(&sandbox, &moved).await.unwrap();
    client.delete_file(&sandbox, "src/deleted", false).await.unwrap();
    client.delete_file(&sandbox, "many", true).await.unwrap();
    let deleted =
        |record: &WatchRecord| matches!(record, WatchRecord::Deleted { path, .. } if path == "src/deleted");
    while !deleted(&timeout(SOON, changes.next()).await.unwrap().unwrap().unwrap()) {}

    let look = "cat src/edited src/written src/deep/moved src/hard; stat -c %a src/edited; ls -d many src/*";
    let expected = "one\n2\nnew\nx\nx\n640\nsrc/deep\nsrc/edited\nsrc/hard\nsrc/written\n";
    assert_eq!(daemon.output(&sandbox, &format!("({look}) 2>/dev/null || true")).await, expected);
    let glob = GlobFiles { pattern: "**/*".into(), ..GlobFiles::default() };
    assert_eq!(client.glob_files(&sandbox, &glob).await.unwrap().entries.len(), 7);
    let packed =
        client.pack_files(&sandbox, "src", ArchiveFormat::Tar).await.unwrap().bytes(1 << 20).await.unwrap();
    client.unpack_files(&sandbox, "copy", packed).await.unwrap();
    assert_eq!(
        daemon.output(&sandbox, "cat copy/src/written copy/written 2>/dev/null || true").await,
        "new\n"
    );
    assert_eq!(daemon.output(&original, "cat src/written; ls many | wc -l").await, "old\n1200\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_command_reads_files_of_a_base_and_cannot_change_them() {
    let daemon = Daemon::start().await;
    let (original, sandbox) = original_and_copy(&daemon).await;
    let attempts = "cat src/deep/found; for act in 'echo x >> many/1' 'rm many/2' 'mv many/3 three' \
        'ln many/5 five' 'truncate -s 0 many/7' 'mkdir many/dir'; do (eval \"$act\") 2>/dev/null && echo \"done: $act\"; done; true";
    let command = StartCommand { read_only: Some(true), ..script(attempts) };
    let ended = outcome(daemon.client.run(&sandbox, &command).await.unwrap()).await;
    assert_eq!((ended.text().as_str(), ended.exit_code), ("needle\n", 0), "{ended:?}");
    let same = "cd many; ls | wc -l; cat 1 7; stat -c %h 5";
    assert_eq!(daemon.output(&sandbox, same).await, daemon.output(&original, same).await);
    daemon.stop().await;
}
