//! No path leads out of the workspace, whatever its spelling and whatever changes meanwhile.

use std::time::{Duration, Instant};

use sandbox_api::files::{EditFile, GlobFiles, GrepFiles, MoveFile, TextEdit};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{ArchiveFormat, Error, WriteOptions};

use crate::support::files::{file, write};
use crate::support::harness::{Daemon, over_each_transport, until};

over_each_transport!(every_call_rejects_every_path_outside, constantly_swapped_links_never_lead_outside);

const SECRET: &str = "root:";

/// The result of each call for a path that should be rejected.
async fn refusals(
    daemon: &Daemon,
    sandbox: &SandboxId,
    path: &str,
) -> Vec<(&'static str, Option<ErrorCode>)> {
    let client = &daemon.client;
    let code = |error: Option<Error>| error.and_then(|error| error.code());
    let edit = EditFile {
        path: path.into(),
        edits: vec![TextEdit { old_text: "root".into(), new_text: "x".into(), replace_all: Some(true) }],
        ..EditFile::default()
    };
    let into = MoveFile { from: "inside".into(), to: path.into(), overwrite: Some(true) };
    let out_of = MoveFile { from: path.into(), to: "stolen".into(), overwrite: None };
    vec![
        ("get", code(client.get_file(sandbox, path, None).await.err())),
        ("read", code(client.read_file(sandbox, path).await.err())),
        ("put", code(client.put_file(sandbox, path, "x", WriteOptions::default()).await.err())),
        ("write", code(write(daemon, sandbox, [file(path, "x")]).await.err())),
        ("edit", code(client.edit_file(sandbox, &edit).await.err())),
        ("move to", code(client.move_file(sandbox, &into).await.err())),
        ("move from", code(client.move_file(sandbox, &out_of).await.err())),
        ("delete", code(client.delete_file(sandbox, path, true).await.err())),
        ("mkdir", code(client.make_dir(sandbox, path).await.err())),
        ("pack", code(client.pack_files(sandbox, path, ArchiveFormat::Tar).await.err())),
        ("unpack", code(client.unpack_files(sandbox, path, "").await.err())),
    ]
}

async fn every_call_rejects_every_path_outside(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo 1 > inside; mkdir a; ln -s /etc etc; ln -s /proc/self/root root; mkdir ../workspace2 2>/dev/null; ln -s ../.local up; true").await;
    for path in [
        "../x/y",
        "/etc/passwd",
        "/vercel/sandbox/workspace2/x",
        "/vercel/sandbox/workspace/../.local/x",
        "a/../../x/y",
        "etc/passwd",
        "root/etc/passwd",
        "up/x",
        "/proc/self/root/etc/passwd",
        "/proc/1/environ",
    ] {
        for (call, code) in refusals(daemon, &sandbox, path).await {
            assert_eq!(code, Some(ErrorCode::Refused), "{call} {path}");
        }
    }
    let grep = GrepFiles { query: "root".into(), path: Some("etc".into()), ..GrepFiles::default() };
    assert_eq!(daemon.client.grep_files(&sandbox, &grep).await.unwrap_err().code(), Some(ErrorCode::Refused));
    let glob = GlobFiles { pattern: "**".into(), path: Some("..".into()), ..GlobFiles::default() };
    assert_eq!(daemon.client.glob_files(&sandbox, &glob).await.unwrap_err().code(), Some(ErrorCode::Refused));
    assert_eq!(daemon.output(&sandbox, "cat inside; ls").await, "1\na\netc\ninside\nroot\nup\n");
    let everything = GrepFiles { query: SECRET.into(), include_ignored: Some(true), ..GrepFiles::default() };
    assert!(daemon.client.grep_files(&sandbox, &everything).await.unwrap().matches.is_empty());
}

/// Swaps a name between a directory with a file in it and a link to the outside, as fast as it can, until there is a file
/// `enough`.
const CHURN: &str = r"
import os
os.makedirs('real', exist_ok=True)
open('real/passwd', 'w').write('inside')
os.symlink('/etc', 'out')
os.symlink('real/passwd', 'link')
os.symlink('/etc/passwd', 'link-out')
os.symlink('real', 'dir')
while not os.path.exists('enough'):
    for name, a, b in (('dir', 'real', 'out'), ('link', 'real/passwd', 'link-out')):
        for target in (a, b):
            os.symlink(os.readlink(target) if os.path.islink(target) else target, 'next')
            os.rename('next', name)
";

/// How long the race lasts, and how long it may last on a slow machine until both have happened often.
const RACE: Duration = Duration::from_secs(10);
const SLOW_RACE: Duration = Duration::from_secs(60);

/// More reads than this must find the file, and more than this must be rejected.
const OFTEN: u32 = 20;

async fn constantly_swapped_links_never_lead_outside(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let churn = tokio::spawn({
        let (client, sandbox) = (daemon.client.clone(), sandbox.clone());
        let request = sandbox_api::command::StartCommand {
            cmd: Some("python3".into()),
            args: Some(vec!["-c".into(), CHURN.into()]),
            ..Default::default()
        };
        async move { crate::support::harness::outcome(client.run(&sandbox, &request).await.unwrap()).await }
    });
    until("the swapping has begun", || async { daemon.client.stat_file(&sandbox, "dir").await.is_ok() })
        .await;
    let began = Instant::now();
    let (mut inside, mut refused) = (0, 0);
    while began.elapsed() < RACE || (inside.min(refused) <= OFTEN && began.elapsed() < SLOW_RACE) {
        for path in ["dir/passwd", "link"] {
            match daemon.client.read_file(&sandbox, path).await {
                Ok(Some(content)) => {
                    assert!(
                        content == b"inside" || content == b"written",
                        "{}",
                        String::from_utf8_lossy(&content)
                    );
                    inside += 1;
                }
                Ok(None) => {}
                Err(error) => {
                    assert_eq!(error.code(), Some(ErrorCode::Refused), "{error}");
                    refused += 1;
                }
            }
            let _ = daemon.client.put_file(&sandbox, path, "written", WriteOptions::default()).await;
            let _ = daemon.client.delete_file(&sandbox, "dir/new", true).await;
            let _ = daemon.client.make_dir(&sandbox, "dir/new").await;
        }
    }
    daemon.client.put_file(&sandbox, "enough", "", WriteOptions::default()).await.unwrap();
    assert_eq!(churn.await.unwrap().exit_code, 0);
    assert!(
        inside > OFTEN && refused > OFTEN,
        "the race did not take place: {inside} inside, {refused} rejected"
    );
    assert_eq!(
        daemon.output(&sandbox, "grep -c written /etc/passwd; ls -d /etc/new 2>/dev/null; true").await,
        "0\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fifos_and_devices_are_rejected_without_waiting() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon
        .output(&sandbox, "mkfifo fifo; ln -s /dev/zero zero; mkdir dir; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; ln -s loop loop; ln -s nowhere dangling")
        .await;
    for path in ["fifo", "zero", "dir", "sock", "loop"] {
        for (call, code) in [
            ("get", daemon.client.get_file(&sandbox, path, None).await.unwrap_err().code()),
            (
                "put",
                daemon
                    .client
                    .put_file(&sandbox, path, "x", WriteOptions::default())
                    .await
                    .unwrap_err()
                    .code(),
            ),
        ] {
            assert_eq!(code, Some(ErrorCode::Refused), "{call} {path}");
        }
    }
    let dangling = daemon.client.get_file(&sandbox, "dangling", None).await.unwrap_err();
    assert_eq!(dangling.code(), Some(ErrorCode::NotFound));
    let packed = daemon
        .client
        .pack_files(&sandbox, "", ArchiveFormat::Tar)
        .await
        .unwrap()
        .bytes(1 << 20)
        .await
        .unwrap();
    let mut archive = tar::Archive::new(&packed[..]);
    let mut names: Vec<String> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    names.sort();
    assert_eq!(names, ["dangling", "dir", "loop", "zero"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_replaces_a_hard_link_and_not_its_other_names() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo 1 > one; ln one two; ln /etc/passwd stolen 2>/dev/null; true").await;
    daemon.client.put_file(&sandbox, "one", "2\n", WriteOptions::default()).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat one two; ls").await, "2\n1\none\ntwo\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_can_be_as_long_as_linux_allows() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let longest = "n".repeat(255);
    client.put_file(&sandbox, &longest, "1", WriteOptions::default()).await.unwrap();
    assert_eq!(client.stat_file(&sandbox, &longest).await.unwrap().size, 1);
    let deep = format!("{}f", "0123456789/".repeat(372));
    assert_eq!(deep.len(), 4093);
    let put = client.put_file(&sandbox, &deep, "1", WriteOptions::default()).await;
    put.unwrap();
    assert_eq!(client.get_file(&sandbox, &deep, None).await.unwrap().bytes(9).await.unwrap(), b"1");
    let refused = |path: String| async move {
        client.put_file(&sandbox, &path, "1", WriteOptions::default()).await.unwrap_err().code()
    };
    assert_eq!(refused("n".repeat(256)).await, Some(ErrorCode::Refused));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_path_names_its_field() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let api = crate::support::http::HttpClient::of(&daemon);
    let path = |query: &str| format!("/v1/sandboxes/{sandbox}/files{query}");
    for (query, field) in [
        ("?path=a%00b", "path"),
        ("?path=", "path"),
        ("", "path"),
        (&format!("?path={}", "a".repeat(4096)), "path"),
        (":stat?path=%00", "path"),
        (":list?path=a&depth=0", "depth"),
        (":list?path=a&depth=33", "depth"),
        (":list?path=a&depth=x", "depth"),
        (":list?limit=0", "limit"),
        (":list?limit=10001", "limit"),
        (":list?cursor=!", "cursor"),
        (":archive?path=a&format=zip", "format"),
        (":watch?recursive=1", "recursive"),
    ] {
        api.get(&path(query)).await.faults(field, query);
    }
    for mode in ["888", "-1", "1777", "rwx", ""] {
        let put = api.with_token("PUT", &path(&format!("?path=a&mode={mode}"))).body("x");
        crate::support::http::Answer::to(put).await.faults("mode", mode);
    }
    daemon.stop().await;
}
