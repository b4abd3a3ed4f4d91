//! Errors of file requests: their content, and the state that they leave behind.

use sandbox_api::ErrorCode;
use sandbox_client::WriteOptions;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::support::files::{file, no_partial_write_is_left, read, write};
use crate::support::harness::{Daemon, over_each_transport, skipped_under_gvisor};
use crate::support::http::{Answer, HttpClient};

over_each_transport!(a_durable_write_replaces_the_existing_file, a_long_name_is_rejected_like_a_short_one);

async fn a_durable_write_replaces_the_existing_file(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    write(daemon, &sandbox, [file("file", "before")]).await.unwrap();
    let durable = WriteOptions { durable: true, ..WriteOptions::default() };
    for (path, created) in [("file", false), ("new/dir/file", true)] {
        let written = daemon.client.put_file(&sandbox, path, "after", durable).await.unwrap();
        assert_eq!(written.created, created, "{path}");
        assert_eq!(read(daemon, &sandbox, path).await.unwrap().as_deref(), Some(&b"after"[..]));
    }
    // A directory that its owner may not read can still be written to.
    daemon.output(&sandbox, "mkdir -m 300 shut").await;
    daemon.client.put_file(&sandbox, "shut/file", "after", durable).await.unwrap();
    no_partial_write_is_left(daemon, &sandbox).await;
}

/// Names longer than any header list may be, in every place that an error might repeat.
async fn a_long_name_is_rejected_like_a_short_one(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    let api = HttpClient::of(daemon);
    let longest = "%FF/".repeat(2047);
    // More errors than one connection serves requests.
    for _ in 0..3 {
        let answer = api.get(&format!("/v1/sandboxes/{sandbox}/files:stat?path={longest}%FF")).await;
        answer.refused(ErrorCode::NotFound, "the longest path");
        let answer =
            api.get(&format!("/v1/sandboxes/{sandbox}/files:stat?path={}", "%FF".repeat(4095))).await;
        is_bounded(&answer, ErrorCode::Refused);
    }
    for length in [5_000, 60_000, 200_000] {
        let upload = api.with_token("PUT", &format!("/v1/sandboxes/{sandbox}/files:archive?path=to"));
        let answer = Answer::to(upload.body(archive_of_a_long_name(length))).await;
        let facts = is_bounded(&answer, ErrorCode::Refused);
        assert!(facts["member"].as_str().is_some_and(|member| member.starts_with("mm")), "{facts}");
    }
    let long = "x".repeat(300_000);
    let request = json!({ "cmd": "true", "env": { format!("{long}="): "" } });
    is_bounded(
        &api.post(&format!("/v1/sandboxes/{sandbox}/commands"), &request).await,
        ErrorCode::InvalidRequest,
    );
    let request = json!({ "sessionKey": "chat:2", "runtime": long });
    is_bounded(&api.post("/v1/sandboxes", &request).await, ErrorCode::InvalidRequest);
    assert_eq!(daemon.output(&sandbox, "echo alive").await, "alive\n");
}

/// Checks that an error repeats little of the request. Returns its details.
fn is_bounded(answer: &Answer, code: ErrorCode) -> Value {
    assert!(answer.body.len() < 8 * 1024, "{} bytes", answer.body.len());
    assert!(answer.status < 500, "{}", answer.status);
    let refused: Value = answer.json();
    if code == ErrorCode::Refused {
        assert_eq!(refused["code"], json!(code), "{refused}");
    }
    refused["details"].clone()
}

/// The name is in the extension that GNU tar uses for long names, and is not a valid path.
fn archive_of_a_long_name(length: usize) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let name = vec![b'm'; length];
    let mut long = Header::new_gnu();
    long.set_entry_type(EntryType::GNULongName);
    long.set_size(name.len() as u64);
    long.set_path("././@LongLink").unwrap();
    long.set_cksum();
    builder.append(&long, &name[..]).unwrap();
    let mut member = Header::new_gnu();
    member.set_entry_type(EntryType::Regular);
    member.set_size(0);
    member.set_path("short").unwrap();
    member.set_cksum();
    builder.append(&member, &b""[..]).unwrap();
    builder.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_below_a_file_is_not_found() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    write(&daemon, &sandbox, [file("a.txt", "a")]).await.unwrap();
    daemon.output(&sandbox, "ln -s a.txt link").await;
    for path in ["a.txt/b", "a.txt/b/c", "link/b"] {
        assert_eq!(read(&daemon, &sandbox, path).await.unwrap(), None, "{path}");
        let api = HttpClient::of(&daemon);
        for route in ["files?path", "files:stat?path", "files:list?path", "files:archive?path"] {
            let answer = api.get(&format!("/v1/sandboxes/{sandbox}/{route}={path}")).await;
            answer.refused(ErrorCode::NotFound, &format!("{route} {path}"));
        }
        let delete = api.with_token("DELETE", &format!("/v1/sandboxes/{sandbox}/files?path={path}"));
        Answer::to(delete).await.refused(ErrorCode::NotFound, path);
        let request = json!({ "from": path, "to": "to" });
        let moved = api.post(&format!("/v1/sandboxes/{sandbox}/files:move"), &request).await;
        moved.refused(ErrorCode::NotFound, path);
        // A file that would be created there cannot be.
        let put = api.with_token("PUT", &format!("/v1/sandboxes/{sandbox}/files?path={path}"));
        Answer::to(put.body("x")).await.refused(ErrorCode::Refused, path);
    }
    let api = HttpClient::of(&daemon);
    let listed = api.get(&format!("/v1/sandboxes/{sandbox}/files:list?path=a.txt")).await;
    listed.refused(ErrorCode::Refused, "a file is listed");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_and_a_read_honour_the_etag() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let written = daemon.client.put_file(&sandbox, "file", "content", WriteOptions::default()).await.unwrap();
    let (current, path) =
        (format!("\"{}\"", written.etag), format!("/v1/sandboxes/{sandbox}/files?path=file"));
    let api = HttpClient::of(&daemon);
    let ask = |method: &str, path: &str, etag: &str| {
        Answer::to(api.with_token(method, path).header("if-match", etag))
    };
    for method in ["GET", "DELETE"] {
        ask(method, &path, "\"other\"").await.refused(ErrorCode::PreconditionFailed, method);
    }
    assert_eq!(ask("GET", &path, &format!("\"other\", {current}")).await.body, b"content");
    for (method, etag) in [("DELETE", "\"a\", \"b\""), ("DELETE", "{}"), ("PUT", "a")] {
        ask(method, &path, etag).await.faults("if-match", etag);
    }
    let absent = path.replace("=file", "=absent");
    ask("DELETE", &absent, "*").await.refused(ErrorCode::PreconditionFailed, "nothing is there");
    assert_eq!(ask("DELETE", &path, &current).await.status, 200);
    assert_eq!(read(&daemon, &sandbox, "file").await.unwrap(), None);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_starts_in_a_directory_behind_a_proc_link() {
    if skipped_under_gvisor(
        "it lacks openat2(2), which rejects such links; they lead to a directory of the sandbox",
    ) {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "ln -s /proc/1/cwd cwd").await;
    let api = HttpClient::of(&daemon);
    for cwd in ["/proc/self/cwd", "/proc/1/root", "/proc/self/root/tmp", "cwd"] {
        let command = json!({ "cmd": "bash", "args": ["-c", "pwd -P"], "cwd": cwd });
        let started = api.post(&format!("/v1/sandboxes/{sandbox}/commands"), &command).await;
        started.refused(ErrorCode::Refused, cwd);
        let terminal = json!({ "cwd": cwd });
        let opened = api.post(&format!("/v1/sandboxes/{sandbox}/terminals"), &terminal).await;
        opened.refused(ErrorCode::Refused, cwd);
    }
    daemon.stop().await;
}
