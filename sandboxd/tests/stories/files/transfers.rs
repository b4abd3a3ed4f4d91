//! Interrupted transfers: a client that disconnects or stalls, a full disk, a killed daemon, files that change under
//! their readers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sandbox_api::command::StartCommand;
use sandbox_api::files::{EditFile, GrepFiles, TextEdit};
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::WriteOptions;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::support::files::no_partial_write_is_left;
use crate::support::harness::{
    Daemon, DaemonProcess, Home, SOON, free_port, outcome, skipped_under_gvisor, until,
};
use crate::support::http::Wire;

const MIB: usize = 1024 * 1024;

fn zeros(mebibytes: usize) -> Vec<u8> {
    vec![0; mebibytes * MIB]
}

/// An upload in progress: its first mebibyte is sent, and the caller sends the rest.
async fn begun(
    client: sandbox_client::Client,
    sandbox: SandboxId,
) -> (mpsc::Sender<Result<Bytes, std::io::Error>>, tokio::task::JoinHandle<Result<(), sandbox_client::Error>>)
{
    let (sender, receiver) = mpsc::channel(1);
    sender.send(Ok(zeros(1).into())).await.unwrap();
    let pieces =
        futures::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let upload = sandbox_client::upload_stream(pieces);
    let task = tokio::spawn(async move {
        client.put_file(&sandbox, "file", upload, WriteOptions::default()).await.map(drop)
    });
    // The channel has taken the second piece, so the first is sent.
    sender.send(Ok(zeros(1).into())).await.unwrap();
    (sender, task)
}

const STAGED: &str = "find /vercel/sandbox/.staging -type f 2>/dev/null | wc -l";

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_interrupted_by_the_client_leaves_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo before > file").await;
    let (sender, task) = begun(daemon.client.clone(), sandbox.clone()).await;
    until("the upload has begun", || async { daemon.output(&sandbox, STAGED).await == "1\n" }).await;
    sender.send(Err(std::io::ErrorKind::BrokenPipe.into())).await.unwrap();
    assert!(task.await.unwrap().is_err());
    no_partial_write_is_left(&daemon, &sandbox).await;
    assert_eq!(daemon.output(&sandbox, "cat file; ls").await, "before\nfile\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_interrupted_by_a_killed_daemon_leaves_nothing() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.client.put_file(&sandbox, "file", "before", WriteOptions::default()).await.unwrap();
    let (_sender, task) = begun(daemon.client.clone(), sandbox.clone()).await;
    let staged = |daemon: &DaemonProcess| {
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        async move {
            let count = StartCommand { script: Some(STAGED.into()), ..StartCommand::default() };
            outcome(client.run(&sandbox, &count).await.unwrap()).await.text()
        }
    };
    until("the upload has begun", || async { staged(&daemon).await == "1\n" }).await;
    daemon.kill().await;
    assert!(task.await.unwrap().is_err());
    let daemon = DaemonProcess::start(&home, port).await;
    until("nothing is left", || async { staged(&daemon).await == "0\n" }).await;
    assert_eq!(daemon.client.read_file(&sandbox, "file").await.unwrap().unwrap(), b"before");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_exceeds_the_quota_keeps_the_old_content() {
    let daemon = Daemon::start().await;
    let resources = Resources { disk_mb: Some(64), ..Resources::default() };
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        resources: Some(resources),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.client.put_file(&sandbox, "file", "before", WriteOptions::default()).await.unwrap();
    let full =
        daemon.client.put_file(&sandbox, "file", zeros(80), WriteOptions::default()).await.unwrap_err();
    assert_eq!(full.code(), Some(ErrorCode::InsufficientStorage), "{full:?}");
    assert_eq!(daemon.client.read_file(&sandbox, "file").await.unwrap().unwrap(), b"before");
    no_partial_write_is_left(&daemon, &sandbox).await;
    // Running out of inodes is also running out of space.
    let many = "i=0; while : > inode$i; do i=$((i+1)); done 2>/dev/null; ls | wc -l";
    assert!(daemon.output(&sandbox, many).await.trim().parse::<u32>().unwrap() > 1000);
    let full = daemon.client.put_file(&sandbox, "another", "x", WriteOptions::default()).await.unwrap_err();
    assert_eq!(full.code(), Some(ErrorCode::InsufficientStorage), "{full:?}");
    assert_eq!(daemon.client.read_file(&sandbox, "file").await.unwrap().unwrap(), b"before");
    daemon.output(&sandbox, "find . -name 'inode*' -delete").await;
    daemon.client.put_file(&sandbox, "another", "x", WriteOptions::default()).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_do_not_delay_others() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 50M /dev/zero > large").await;
    let mut still = Vec::new();
    for path in ["files?path=large", "files:archive?path="].into_iter().cycle().take(40) {
        let mut wire = Wire::to(&daemon).await;
        wire.begin("GET", &format!("/v1/sandboxes/{sandbox}/{path}")).await;
        wire.send(b"\r\n").await.unwrap();
        still.push(wire);
    }
    let began = Instant::now();
    for round in 0..20 {
        let name = format!("small{round}");
        let put = daemon.client.put_file(&sandbox, &name, "1", WriteOptions::default());
        timeout(SOON, put).await.expect("the upload waits for stalled readers").unwrap();
        timeout(SOON, daemon.client.read_file(&sandbox, &name))
            .await
            .expect("the read waits for stalled readers")
            .unwrap();
    }
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    drop(still);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_archives_delay_only_other_archives() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo before > file").await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let pieces = futures::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        let upload = sandbox_client::upload_stream(pieces);
        let task = tokio::spawn(async move { client.unpack_files(&sandbox, "to", upload).await });
        // The head of a member, which is enough to start.
        sender.send(Ok(Bytes::from_static(&[0; 100]))).await.unwrap();
        slow.push((sender, task));
    }
    // The two above the limit are rejected.
    until("the others are rejected", || async {
        slow.iter().filter(|(_, task)| task.is_finished()).count() == 2
    })
    .await;
    let edit = || async {
        let edits = vec![TextEdit { old_text: "before".into(), new_text: "after".into(), replace_all: None }];
        daemon
            .client
            .edit_file(&sandbox, &EditFile { path: "file".into(), edits, ..EditFile::default() })
            .await
            .unwrap();
        let request = GrepFiles { query: "after".into(), ..GrepFiles::default() };
        assert_eq!(daemon.client.grep_files(&sandbox, &request).await.unwrap().matches.len(), 1);
    };
    timeout(Duration::from_secs(5), edit()).await.expect("an upload is delayed");
    for (sender, task) in slow {
        drop(sender);
        let refused = task.await.unwrap().unwrap_err();
        let code = refused.code();
        assert!(matches!(code, Some(ErrorCode::CapacityExhausted | ErrorCode::Refused)), "{refused:?}");
    }
    no_partial_write_is_left(&daemon, &sandbox).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writers_of_one_file_never_tear_it() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let content = |of: char| of.to_string().repeat(MIB / 4);
    daemon.client.put_file(&sandbox, "file", content('a'), WriteOptions::default()).await.unwrap();
    let over = CancellationToken::new();
    let writers = ['a', 'b'].map(|of| {
        let (client, sandbox, over) = (daemon.client.clone(), sandbox.clone(), over.clone());
        tokio::spawn(async move {
            let mut writes = 0;
            while !over.is_cancelled() {
                client.put_file(&sandbox, "file", content(of), WriteOptions::default()).await.unwrap();
                writes += 1;
            }
            writes
        })
    });
    let end = Instant::now() + Duration::from_secs(8);
    let mut seen = std::collections::HashMap::new();
    while Instant::now() < end {
        let read = daemon.client.get_file(&sandbox, "file", None).await.unwrap().bytes(MIB).await.unwrap();
        assert_eq!(read.len(), MIB / 4);
        assert!(read.iter().all(|byte| *byte == read[0]), "a torn read");
        *seen.entry(read[0]).or_insert(0) += 1;
    }
    over.cancel();
    for writer in writers {
        assert!(writer.await.unwrap() > 5);
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    no_partial_write_is_left(&daemon, &sandbox).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_shrinks_while_it_is_read_is_reported_as_incomplete() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 100M /dev/zero > file").await;
    let shrinking = daemon.client.get_file(&sandbox, "file", None).await.unwrap();
    daemon.output(&sandbox, "truncate -s 10 file").await;
    let read = shrinking.bytes(200 * MIB).await;
    assert!(read.is_err(), "{} bytes", read.unwrap().len());
    daemon.output(&sandbox, "head -c 20M /dev/zero > file").await;
    let growing = daemon.client.get_file(&sandbox, "file", None).await.unwrap();
    daemon.output(&sandbox, "head -c 20M /dev/zero >> file").await;
    assert_eq!(growing.bytes(200 * MIB).await.unwrap().len(), 20 * MIB);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_can_be_deleted_while_its_files_are_read_and_written() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 100M /dev/zero > large").await;
    let reading = daemon.client.get_file(&sandbox, "large", None).await.unwrap();
    let (_sender, task) = begun(daemon.client.clone(), sandbox.clone()).await;
    timeout(SOON, daemon.client.delete(&sandbox)).await.expect("the delete waits for transfers").unwrap();
    assert!(reading.bytes(200 * MIB).await.is_err());
    assert!(timeout(SOON, task).await.expect("the upload does not end").unwrap().is_err());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_do_not_fill_a_small_sandbox() {
    let daemon = Daemon::start().await;
    let resources = Resources { memory_mb: Some(256), ..Resources::default() };
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        resources: Some(resources),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.output(&sandbox, "head -c 20M /dev/urandom > large; setsid sleep 300 & echo").await;
    let mut still = Vec::new();
    for path in ["files?path=large", "files:archive?path="].into_iter().cycle().take(240) {
        let mut wire = Wire::to(&daemon).await;
        wire.begin("GET", &format!("/v1/sandboxes/{sandbox}/{path}")).await;
        wire.send(b"\r\n").await.unwrap();
        still.push(wire);
    }
    // Readers above the limit are rejected within their ten seconds.
    let full = daemon.client.pack_files(&sandbox, "", sandbox_client::ArchiveFormat::Tar).await.unwrap_err();
    assert_eq!(full.code(), Some(ErrorCode::CapacityExhausted));
    assert_eq!(daemon.output(&sandbox, "pgrep -c sleep").await, "1\n");
    drop(still);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_cannot_disable_writing() {
    if skipped_under_gvisor("a rename out of a directory whose mode was changed fails there with EINVAL") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let tamper = "cd /vercel/sandbox; chmod 000 .staging; rm -rf .staging 2>/dev/null; mv .staging x 2>/dev/null; ln -sfn /etc .staging/x 2>/dev/null; true";
    daemon.output(&sandbox, tamper).await;
    daemon.client.put_file(&sandbox, "file", "1", WriteOptions::default()).await.unwrap();
    daemon
        .output(
            &sandbox,
            "mkdir -p dir/shut; touch dir/shut/file; chmod 000 dir/shut; chmod 000 /vercel/sandbox/.staging",
        )
        .await;
    assert_eq!(daemon.client.delete_file(&sandbox, "dir", true).await.unwrap().removed, 3);
    assert_eq!(daemon.output(&sandbox, "ls; ls -A /vercel/sandbox/.staging").await, "file\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_archive_leaves_nothing_that_takes_space() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir to to/z").await;
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in [("a/new", &zeros(4)[..]), ("z", b"x")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content).unwrap();
    }
    let archive = builder.into_inner().unwrap();
    let refused = daemon.client.unpack_files(&sandbox, "to", archive).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::AlreadyExists));
    assert_eq!(daemon.output(&sandbox, "ls to; find /vercel/sandbox/.staging -mindepth 1").await, "z\n");
    daemon.stop().await;
}
