//! Making, listing, comparing and deleting snapshots.

use std::process::Stdio;
use std::time::Duration;

use sandbox_api::snapshot::{
    ChangeKind, ForkSandbox, MakeSnapshot, RestoreSnapshot, SnapshotChange, SnapshotList,
};
use sandbox_api::{ErrorCode, SnapshotId};
use sandbox_client::ImportOptions;
use tokio::process::Command;

use super::{FILL, fingerprint, program, snapshot};
use crate::support::harness::{Daemon, Home, SOON, until_within};
use crate::support::http::HttpClient;
use crate::support::metrics::Samples;

fn restore(snapshot_id: &SnapshotId) -> RestoreSnapshot {
    RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_in_a_workspace_comes_back() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let before = fingerprint(&daemon, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await;
    assert_eq!(fingerprint(&daemon, &sandbox).await, before, "a snapshot changes nothing");
    assert!(made.snapshot.size_bytes > 1 << 30 && made.snapshot.new_bytes < 1 << 20, "{made:?}");
    assert_eq!(made.torn_files, 0);

    daemon
        .output(&sandbox, "chmod 755 empty; rm -rf ./* .git /vercel/sandbox/.local/bin; echo new > new")
        .await;
    let wrecked = fingerprint(&daemon, &sandbox).await;
    let done = daemon.client.restore_snapshot(&sandbox, &restore(&made.snapshot.snapshot_id)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);
    assert_eq!(daemon.output(&sandbox, "tool; cat $TMPDIR/left-out").await, "tool\ntemporary");

    daemon.client.restore_snapshot(&sandbox, &restore(&done.checkpoint_id)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, wrecked, "the checkpoint undoes the restore");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_takes_no_space_again() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(
            &sandbox,
            "head -c 5000000 /dev/urandom > large; mkdir d; for i in $(seq 200); do echo $i > d/$i; done",
        )
        .await;
    let first = snapshot(&daemon, &sandbox).await.snapshot;
    assert!(first.new_bytes >= 5_000_000);
    let second = snapshot(&daemon, &sandbox).await.snapshot;
    assert_eq!((second.new_bytes, &second.parent_id), (0, &Some(first.snapshot_id.clone())));
    daemon.output(&sandbox, "echo changed > d/7").await;
    let third = snapshot(&daemon, &sandbox).await.snapshot;
    assert!(third.new_bytes > 0 && third.new_bytes < 20_000, "{third:?}");
    daemon.client.park(&sandbox, false).await.unwrap();
    let after_park = snapshot(&daemon, &sandbox).await.snapshot;
    assert_eq!(after_park.new_bytes, 0, "also after the container was replaced");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_listed_compared_and_deleted() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(
            &sandbox,
            "echo 1 > kept; echo 2 > changed; echo 3 > gone; echo 4 > old; mkdir d; echo 5 > d/in",
        )
        .await;
    let named = MakeSnapshot { name: Some("first".into()), ttl_ms: Some(60_000), pause: Some(true) };
    let made = daemon.client.make_snapshot(&sandbox, &named).await.unwrap();
    assert!(made.paused);
    let one = made.snapshot;
    assert_eq!(one.expires_at.unwrap().as_millisecond() - one.created_at.as_millisecond(), 60_000);
    daemon
        .output(&sandbox, "touch kept; echo two > changed; rm gone; mv old new; rm -r d; chmod 600 kept")
        .await;
    let two = snapshot(&daemon, &sandbox).await.snapshot;
    let listed = daemon.client.snapshots(&sandbox, None).await.unwrap();
    assert_eq!((listed.snapshots, listed.next_cursor), (vec![two.clone(), one.clone()], None));
    assert_eq!(daemon.client.snapshot(&one.snapshot_id).await.unwrap(), one);

    let changes =
        daemon.client.compare_snapshots(Some(&one.snapshot_id), &two.snapshot_id, None).await.unwrap();
    let change = |path: &str, change, from: Option<&str>| SnapshotChange {
        diff: None,
        diff_base64: None,
        diff_omitted: None,
        path: format!("workspace/{path}"),
        change,
        from: from.map(|from| format!("workspace/{from}")),
    };
    let expected = [
        change("changed", ChangeKind::Modified, None),
        change("d", ChangeKind::Deleted, None),
        change("d/in", ChangeKind::Deleted, None),
        change("gone", ChangeKind::Deleted, None),
        change("kept", ChangeKind::Modified, None),
        change("new", ChangeKind::Renamed, Some("old")),
    ];
    assert_eq!(changes.changes, expected);
    assert_eq!(changes.next_cursor, None);

    // A snapshot outlives its sandbox.
    daemon.client.delete(&sandbox).await.unwrap();
    daemon.client.delete_snapshot(&one.snapshot_id).await.unwrap();
    let gone = daemon.client.snapshot(&one.snapshot_id).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    assert_eq!(daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots, [two]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_deleted_with_its_snapshots_and_an_expired_one_by_itself() {
    let daemon = Daemon::start().await;
    let (one, other) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    snapshot(&daemon, &one).await;
    snapshot(&daemon, &one).await;
    let brief = MakeSnapshot { ttl_ms: Some(1000), ..MakeSnapshot::default() };
    let brief = daemon.client.make_snapshot(&other, &brief).await.unwrap().snapshot.snapshot_id;
    let kept = snapshot(&daemon, &other).await.snapshot;
    daemon.client.delete_with_snapshots(&one).await.unwrap();
    assert_eq!(daemon.client.snapshots(&one, None).await.unwrap().snapshots, []);
    until_within(2 * SOON, "the snapshot has expired", || async {
        daemon.client.snapshot(&brief).await.is_err_and(|error| error.code() == Some(ErrorCode::NotFound))
    })
    .await;
    assert_eq!(daemon.client.all_snapshots(None).await.unwrap().snapshots, [kept]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_writes_only_what_differs_and_both_are_counted() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // A file that was changed in the tick of the clock in which a snapshot begins is read again by the next one.
    let files = "mkdir d; for i in $(seq 100); do echo $i > d/$i; done; head -c 100000 /dev/urandom > random
        touch last; while touch now; [[ ! now -nt last ]]; do :; done";
    daemon.output(&sandbox, files).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    // A file that was written again has another inode, or another time of its last change.
    let look = "cd d; stat -c '%n %i %z' * | sort";
    let before = daemon.output(&sandbox, look).await;
    daemon.output(&sandbox, "echo changed > d/7; rm d/8; echo new > d/new").await;
    let restored = daemon.client.restore_snapshot(&sandbox, &restore(&made.snapshot_id)).await.unwrap();
    assert_eq!((restored.written, restored.removed), (2, 1));
    let after = daemon.output(&sandbox, look).await;
    let differ: Vec<_> =
        before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    assert_eq!(differ.len(), 2, "{differ:?}");
    assert!(differ.iter().all(|(line, _)| line.starts_with("7 ") || line.starts_with("8 ")), "{differ:?}");

    let samples = Samples::of(&daemon).await;
    assert!(samples.sum("sandboxd_snapshot_new_bytes_total", &[]) > 100_000.0);
    assert!(samples.sum("sandboxd_snapshot_shared_bytes_total", &[]) > 0.0, "of the checkpoint");
    assert_eq!(samples.sum("sandboxd_snapshot_seconds_count", &[]), 2.0);
    assert_eq!(samples.sum("sandboxd_restore_seconds_count", &[]), 1.0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_without_a_sandbox_are_listed_too() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    let file = daemon.client.export_snapshot(&made.snapshot_id).await.unwrap().bytes(1 << 20).await.unwrap();
    daemon.client.delete(&sandbox).await.unwrap();
    let other = daemon.sandbox("chat:2").await;
    let of_other = snapshot(&daemon, &other).await.snapshot;
    let named = ImportOptions { name: Some("imported"), ttl_ms: None };
    let imported = daemon.client.import_snapshot(file, &named).await.unwrap();

    let listed = daemon.client.all_snapshots(None).await.unwrap();
    assert_eq!((listed.snapshots.len(), &listed.next_cursor, &listed.snapshots[0]), (3, &None, &of_other));
    assert!(listed.snapshots.contains(&made) && listed.snapshots.contains(&imported), "{listed:?}");

    let lines = async |args: &[&str]| {
        let (code, printed) = program(&daemon, args).await;
        assert_eq!(code, Some(0), "{printed}");
        printed.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["snapshots"]).await.len(), 3);
    for name in [sandbox.as_str(), "chat:1"] {
        let of_deleted = lines(&["snapshots", name]).await;
        assert!(
            of_deleted.len() == 1 && of_deleted[0].starts_with(made.snapshot_id.as_str()),
            "{of_deleted:?}"
        );
    }
    assert_eq!(lines(&["snapshots", "chat:3"]).await, Vec::<String>::new());
    daemon.stop().await;
}

/// A cursor is a position in the list, so a snapshot that is deleted meanwhile makes the next page skip nothing.
#[tokio::test(flavor = "multi_thread")]
async fn all_snapshots_come_in_pages() {
    let daemon = Daemon::start().await;
    let sandboxes = [daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await];
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(snapshot(&daemon, &sandboxes[number % 2]).await.snapshot.snapshot_id);
    }
    let http = HttpClient::of(&daemon);
    let mut listed = Vec::new();
    let mut path = "/v1/snapshots?limit=2".to_owned();
    loop {
        let page: SnapshotList = serde_json::from_slice(&http.get(&path).await.body).unwrap();
        listed.extend(page.snapshots.into_iter().map(|snapshot| snapshot.snapshot_id));
        daemon.client.delete_snapshot(listed.last().unwrap()).await.unwrap();
        let Some(cursor) = page.next_cursor else { break };
        path = format!("/v1/snapshots?limit=2&cursor={cursor}");
    }
    made.reverse();
    assert_eq!(listed, made);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_outlive_the_database_and_the_index_of_chunks() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let before = fingerprint(&daemon, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    daemon.output(&sandbox, "rm -rf src").await;
    let home = daemon.stop().await;
    for name in ["sandboxd.db", "chunks.sqlite"] {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(home.path().join("state").join(format!("{name}{end}")));
        }
    }

    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.client.snapshot(&made.snapshot_id).await.unwrap(), made);
    daemon.client.restore_snapshot(&sandbox, &restore(&made.snapshot_id)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);
    assert_eq!(snapshot(&daemon, &sandbox).await.snapshot.new_bytes, 0);
    daemon.stop().await;
}

/// A comparison has pages. A file that replaces a directory is listed after all of the directory's entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_place_of_a_large_directory_is_a_change() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir d; for i in $(seq 1100); do echo $i > d/$i; done; touch e").await;
    let first = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "rm -r d; echo x > d; rm e; mkdir e; touch e/inside").await;
    let second = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let mut changes = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = daemon.client.compare_snapshots(Some(&first), &second, cursor.as_deref()).await.unwrap();
        changes.extend(page.changes.into_iter().map(|change| (change.change, change.path)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(changes.len(), 1 + 1100 + 1 + 1 + 1 + 1);
    for path in ["workspace/d", "workspace/e"] {
        for kind in [ChangeKind::Deleted, ChangeKind::Added] {
            assert!(changes.contains(&(kind, path.to_owned())), "{kind:?} {path}");
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_snapshots_together_have_a_budget() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_SNAPSHOTS_MB", "2")).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 3M /dev/urandom > large; echo one > file").await;
    let first = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "echo two > file").await;
    let make = async || daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await;
    let refused = make().await.unwrap_err();
    let sandbox_client::Error::Refused { body, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    assert_eq!(body.details["value"], 2 << 20, "{refused}");
    let fork = ForkSandbox { session_keys: vec!["chat:2".into()] };
    let refused = daemon.client.fork(&sandbox, &fork).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted));
    // Existing snapshots can still be used, and a restore can be undone.
    let undo = daemon.client.restore_snapshot(&sandbox, &restore(&first)).await.unwrap().checkpoint_id;
    daemon.client.restore_snapshot(&sandbox, &restore(&undo)).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "two\n");

    daemon.output(&sandbox, "rm large").await;
    for one in daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots {
        daemon.client.delete_snapshot(&one.snapshot_id).await.unwrap();
    }
    // Upkeep, which runs every minute, makes room.
    until_within(Duration::from_secs(90), "there is room", async || make().await.is_ok()).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_shows_on_a_terminal_what_it_waits_for() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo one > file").await;
    let before = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "echo two > file").await;
    let after = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    for (args, waited_for, result) in [
        (&["snapshot", "chat:1"][..], "reading the files", "snap_"),
        (&["diff", "--patch", before.as_str(), after.as_str()], "comparing the files", "+two"),
    ] {
        let shown = on_terminal(&daemon, args).await;
        assert!(shown.contains(waited_for), "{shown:?}");
        let last = shown.trim_end().lines().last().unwrap();
        assert!(last.contains(result), "the result comes last: {shown:?}");
    }
    daemon.stop().await;
}

/// What the program shows on a terminal. It must succeed.
async fn on_terminal(daemon: &Daemon, args: &[&str]) -> String {
    let program = daemon.home.program(args);
    let program = program.as_std();
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let line = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>().join(" ");
    let on_terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("SANDBOXD_URL", &daemon.base)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    let output = tokio::time::timeout(SOON, on_terminal).await.expect("the program does not end").unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown:?}");
    shown
}
