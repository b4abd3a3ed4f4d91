//! Files: content is read back as written, a write is all or nothing, and only regular files are accepted.

use std::time::Duration;

use sandbox_api::files::FileToWrite;
use sandbox_api::{ErrorCode, WORKSPACE};
use sandbox_client::Error;
use serde_json::json;
use tokio::time::timeout;

use crate::support::files::{file, no_partial_write_is_left, read, write};
use crate::support::harness::{Daemon, SOON, outcome, over_each_transport, script, under_gvisor, until};
use crate::support::http::{Answer, HttpClient};

const MIB: usize = 1024 * 1024;

over_each_transport!(
    files_are_read_back_as_written,
    a_file_of_twenty_mebibytes_is_read_back,
    a_written_file_has_its_mode_and_the_sandboxs_user,
    a_write_that_fails_writes_none_of_its_files,
    a_missing_file_is_not_found,
    anything_other_than_a_regular_file_is_rejected_at_once,
);

async fn files_are_read_back_as_written(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let all_bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let absolute = format!("{WORKSPACE}/absolute");
    let part = vec![7; 256 * 1024];
    let files: [(&str, &[u8]); 8] = [
        ("text", "grüße\n".as_bytes()),
        ("binary", &all_bytes),
        ("empty", b""),
        ("one part", &part),
        ("made/on/the/way/deep", b"deep"),
        (&absolute, b"absolute"),
        ("./dotted/../dotted/./name", b"dotted"),
        ("-rf; $(touch oops) \"'*?", b"odd"),
    ];
    write(daemon, &sandbox, files.map(|(path, content)| file(path, content))).await.unwrap();
    for (path, content) in files {
        assert!(read(daemon, &sandbox, path).await.unwrap().as_deref() == Some(content), "{path}");
    }
    let sums = daemon.output(&sandbox, "cat text made/on/the/way/deep; wc -c < binary; ls -A dotted").await;
    assert_eq!(sums, "grüße\ndeep70000\nname\n");
    daemon.output(&sandbox, "printf 'from inside' > text").await;
    assert_eq!(read(daemon, &sandbox, "text").await.unwrap().unwrap(), b"from inside");
    assert!(read(daemon, &sandbox, "oops").await.unwrap().is_none());
    no_partial_write_is_left(daemon, &sandbox).await;
}

async fn a_file_of_twenty_mebibytes_is_read_back(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let content: Vec<u8> = (0..20 * MIB as u32 / 4).flat_map(u32::to_le_bytes).collect();
    write(daemon, &sandbox, [file("large", &content)]).await.unwrap();
    assert!(read(daemon, &sandbox, "large").await.unwrap().unwrap() == content, "the bytes differ");
    let check = "python3 -c 'import array; a = array.array(\"I\", open(\"large\", \"rb\").read()); \
                 print(a == array.array(\"I\", range(len(a))), len(a))'";
    assert_eq!(daemon.output(&sandbox, check).await, format!("True {}\n", 20 * MIB / 4));
}

async fn a_written_file_has_its_mode_and_the_sandboxs_user(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let modes = [("plain", None), ("private", Some(0o600)), ("program", Some(0o755)), ("open", Some(0o777))];
    let files = modes.map(|(path, mode)| FileToWrite { mode, ..file(path, "#!/bin/sh\necho ran\n") });
    write(daemon, &sandbox, files).await.unwrap();
    let modes = daemon.output(&sandbox, "stat -c '%n %a' plain private program open").await;
    assert_eq!(modes, "plain 644\nprivate 600\nprogram 755\nopen 777\n");
    assert_eq!(daemon.output(&sandbox, "./program").await, "ran\n");
    write(daemon, &sandbox, [file("new/dir/file", "x")]).await.unwrap();
    let owners = daemon.output(&sandbox, "stat -c '%u:%g' plain new new/dir new/dir/file | sort -u").await;
    assert_eq!(owners, daemon.output(&sandbox, "echo $(id -u):$(id -g)").await);
    let made = daemon.output(&sandbox, "echo more >> plain && rm private && rm -r new && ls").await;
    assert_eq!(made, "open\nplain\nprogram\n");
}

async fn a_write_that_fails_writes_none_of_its_files(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare = "printf old > kept; mkdir dir; touch plain; ln -s /tmp out; ln -s missing dangling; \
                   mkdir closed; chmod 555 closed";
    daemon.output(&sandbox, prepare).await;
    let before = daemon.output(&sandbox, "ls -lAR --time-style=+%s.%N").await;
    // The last file fails. The ones before it must not be written either.
    let bad =
        ["out/file", "dir", "dir/", ".", "plain/below", "../out", "/etc/passwd", "closed/file", "dangling"];
    for path in bad {
        let files = [file("kept", "new"), file("made/here", "new"), file("also", "new"), file(path, "new")];
        let error = write(daemon, &sandbox, files).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "{path}: {error}");
    }
    // Each of these is valid alone, and they exclude each other.
    for (one, other) in [("both", "both/file"), ("both/file", "both"), ("a/b/both", "a/b/both/file/below")] {
        let files = [file("kept", "new"), file("also", "new"), file(one, "new"), file(other, "new")];
        let error = write(daemon, &sandbox, files).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "{one} and {other}: {error}");
    }
    assert_eq!(daemon.output(&sandbox, "ls -lAR --time-style=+%s.%N").await, before);
    no_partial_write_is_left(daemon, &sandbox).await;
}

async fn a_missing_file_is_not_found(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "ln -s nowhere dangling").await;
    for path in ["missing", "no/such/dir/file", &format!("{WORKSPACE}/missing"), "dangling"] {
        assert!(read(daemon, &sandbox, path).await.unwrap().is_none(), "{path}");
    }
    let api = HttpClient::of(daemon);
    let answer = api.get(&format!("/v1/sandboxes/{sandbox}/files:read?path=missing")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "found": false })));
    write(daemon, &sandbox, [file("there", "a")]).await.unwrap();
    let answer = api.get(&format!("/v1/sandboxes/{sandbox}/files:read?path=there")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "found": true, "contentBase64": "YQ==" })));
}

async fn anything_other_than_a_regular_file_is_rejected_at_once(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let prepare = "mkdir dir; mkfifo fifo; ln -s /dev/zero zero; ln -s /dev/tty tty; ln -s loop loop; \
                   python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'";
    daemon.output(&sandbox, prepare).await;
    let before = daemon.output(&sandbox, "ls -lAR --time-style=+%s.%N").await;
    for path in ["dir", ".", WORKSPACE, "fifo", "socket", "zero", "tty", "loop"] {
        let error = read(daemon, &sandbox, path).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "read {path}: {error}");
        let error = write(daemon, &sandbox, [file(path, "x")]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "write {path}: {error}");
    }
    assert_eq!(daemon.output(&sandbox, "ls -lAR --time-style=+%s.%N").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_over_fifty_mebibytes_is_too_large_to_read() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let sizes = format!("truncate -s {} most; truncate -s {} more", 50 * MIB, 50 * MIB + 1);
    daemon.output(&sandbox, &sizes).await;
    let most = HttpClient::of(&daemon).get(&format!("/v1/sandboxes/{sandbox}/files:read?path=most")).await;
    let (head, tail) = (r#"{"found":true,"contentBase64":""#, r#""}"#);
    assert!(most.body.starts_with(head.as_bytes()) && most.body.ends_with(tail.as_bytes()));
    assert_eq!(most.body.len(), head.len() + (50 * MIB).div_ceil(3) * 4 + tail.len());
    let error = read(&daemon, &sandbox, "more").await.unwrap_err();
    let Error::Refused { status, body, .. } = error else { panic!("{error}") };
    assert_eq!((status, body.code), (413, ErrorCode::TooLarge));
    assert_eq!(body.details["limit"], 50 * MIB);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_in_the_sandbox_sees_one_complete_version() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let version = |letter: u8| file("file", vec![letter; MIB]);
    write(&daemon, &sandbox, [version(b'a')]).await.unwrap();
    let reader = "import os
while not os.path.exists('stop'):
    content = open('file', 'rb').read()
    assert len(content) == 1 << 20 and content.count(content[:1]) == len(content), 'torn'
    open('seen', 'a').write(content[:1].decode())
";
    write(&daemon, &sandbox, [file("reader.py", reader)]).await.unwrap();
    let records = daemon.client.run(&sandbox, &script("exec python3 reader.py")).await.unwrap();
    let seen = || async { read(&daemon, &sandbox, "seen").await.unwrap().unwrap_or_default() };
    until("the reader has started", || async { !seen().await.is_empty() }).await;
    for letter in b'b'..=b'p' {
        write(&daemon, &sandbox, [version(letter)]).await.unwrap();
    }
    write(&daemon, &sandbox, [version(b'A')]).await.unwrap();
    until("the reader has the last version", || async { seen().await.ends_with(b"A") }).await;
    write(&daemon, &sandbox, [file("stop", "")]).await.unwrap();
    let ended = timeout(SOON, outcome(records)).await.unwrap();
    assert_eq!(ended.exit_code, 0, "{}", String::from_utf8_lossy(&ended.stderr));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_that_linux_allows_works() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let long = "é".repeat(127) + "x";
    // gVisor lacks openat2(2), so each part of a path is resolved separately on every use.
    let deep = "d/".repeat(if under_gvisor() { 50 } else { 1000 }) + "file";
    let names = ["a\nb", "tab\tand\u{1b}[31m", " ", "...", "-n", &long, &deep, "a%2Fb", "a+b&c=d#e?f", "😀"];
    write(&daemon, &sandbox, names.map(|name| file(name, name))).await.unwrap();
    for name in names {
        assert_eq!(
            read(&daemon, &sandbox, name).await.unwrap().as_deref(),
            Some(name.as_bytes()),
            "{name:?}"
        );
    }
    let count = daemon.output(&sandbox, "find . -type f -print0 | tr -cd '\\0' | wc -c").await;
    assert_eq!(count, format!("{}\n", names.len()));
    let too_long = "x".repeat(256);
    for path in [too_long.as_str(), &format!("{too_long}/file")] {
        let error = write(&daemon, &sandbox, [file(path, "x")]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "write: {error}");
        let error = read(&daemon, &sandbox, path).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Refused), "read: {error}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_request_names_its_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let path = format!("/v1/sandboxes/{sandbox}/files");
    let good = json!({ "path": "made", "contentBase64": "YQ==" });
    let cases = [
        ("path", json!(""), "files[1].path"),
        ("path", json!("a\0b"), "files[1].path"),
        ("path", json!("a/".repeat(2048)), "files[1].path"),
        ("path", json!(1), "files[1].path"),
        ("contentBase64", json!("YQ"), "files[1].contentBase64"),
        ("contentBase64", json!("no base64!"), "files[1].contentBase64"),
        ("contentBase64", json!(null), "files[1].contentBase64"),
        ("mode", json!(0o1000), "files[1].mode"),
        ("mode", json!(0o4755), "files[1].mode"),
        ("mode", json!(-1), "files[1].mode"),
        ("mode", json!("0644"), "files[1].mode"),
    ];
    for (field, value, named) in cases {
        let mut file = good.clone();
        file[field] = value;
        let request = json!({ "files": [good, file] });
        let what: String = request.to_string().chars().take(200).collect();
        api.post(&format!("{path}:write"), &request).await.faults(named, &what);
    }
    for request in [json!({}), json!({ "files": [] }), json!({ "files": null }), json!({ "files": "made" })] {
        api.post(&format!("{path}:write"), &request).await.faults("files", &request.to_string());
    }
    let long = "a/".repeat(2048);
    for query in ["", "?path=", "?path=a%00b", &format!("?path={long}"), "?PATH=a"] {
        api.get(&format!("{path}:read{query}")).await.faults("path", &query[..query.len().min(40)]);
    }
    assert_eq!(daemon.output(&sandbox, "ls -A").await, "");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_transfers_run_beside_commands_without_delaying_them() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("exec sleep 60")).await.unwrap().command_id;
    let writes = (0..8).map(|at| {
        let daemon = &daemon;
        let sandbox = &sandbox;
        async move { write(daemon, sandbox, [file(&format!("dir/{at}"), vec![at; MIB])]).await }
    });
    for written in futures::future::join_all(writes).await {
        written.unwrap();
    }
    assert_eq!(daemon.output(&sandbox, "cat dir/* | wc -c").await, format!("{}\n", 8 * MIB));
    let health =
        Answer::to(HttpClient::of(&daemon).with_token("GET", "/v1/health").timeout(Duration::from_secs(5)));
    assert_eq!(health.await.status, 200);
    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    daemon.stop().await;
}
