//! Requests of every kind during a delete or a park.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use sandbox_api::command::StartCommand;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error, TerminalEvent, WriteOptions, upload_stream};
use serde_json::json;

use crate::support::harness::{Daemon, script};
use crate::support::http::HttpClient;
use crate::support::visitor::{link, node, sandbox_with_port, serve, visit};

/// Rounds of each race. Each sends every request several times.
const ROUNDS: usize = 4;

/// Concurrent clients.
const ASKERS: usize = 4;

/// Pause between two pieces of a body.
const PIECE: Duration = Duration::from_millis(20);

/// An unexpected result of a race, if any.
fn wrong(what: &str, error: &Error) -> Option<String> {
    let code = error.code();
    let fine = matches!(code, Some(ErrorCode::NotFound | ErrorCode::WrongState));
    (!fine).then(|| format!("{what}: {code:?} {error}"))
}

/// Sends every kind of request until `stop` is set. Returns the unexpected results.
async fn send_all_requests(daemon: &Daemon, id: &SandboxId, stop: &AtomicBool) -> Vec<String> {
    let (client, api) = (&daemon.client, HttpClient::of(daemon));
    let mut faults = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut note = |what: &str, answer: Result<(), Error>| {
            faults.extend(answer.err().and_then(|error| wrong(what, &error)));
        };
        note("start", start_and_look(client, id).await);
        note("run", run(client, id).await);
        note("terminals", terminals(client, id).await);
        note("attach", attach(client, id).await);
        note("stdin", stdin(client, id).await);
        note("upload", upload(client, id).await);
        note("touch", client.touch(id, None).await.map(drop));
        note("get", client.get(id).await.map(drop));
        let reads = [
            "files:stat?path=.",
            "files:list?path=.",
            "files:read?path=f",
            "files:archive?path=.",
            "commands",
            "ports",
            "network/denials",
        ];
        for path in reads {
            let answer = api.get(&format!("/v1/sandboxes/{id}/{path}")).await;
            if answer.status >= 500 {
                faults.push(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)));
            }
        }
        let acts = [
            ("files:write", json!({ "files": [{ "path": "f", "contentBase64": "aGk=" }] })),
            ("files:mkdir", json!({ "path": "d" })),
            ("files:grep", json!({ "query": "hi" })),
            ("files:glob", json!({ "pattern": "**" })),
            ("commands:batch", json!({ "commands": [{ "script": "true" }] })),
        ];
        for (path, body) in acts {
            let answer = api.post(&format!("/v1/sandboxes/{id}/{path}"), &body).await;
            if answer.status >= 500 {
                faults.push(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)));
            }
        }
    }
    faults
}

async fn start_and_look(client: &Client, id: &SandboxId) -> Result<(), Error> {
    let command = client.start(id, &script("echo hi; sleep 0.2")).await?.command_id;
    client.inspect(id, &command).await?;
    let mut records = client.logs(id, &command, 0, true).await?;
    while let Some(record) = records.next().await {
        record?;
    }
    client.wait(id, &command, None).await?;
    client.kill(id, &command, &Default::default()).await.map(drop)
}

async fn run(client: &Client, id: &SandboxId) -> Result<(), Error> {
    let mut records = client.run(id, &StartCommand { ..script("echo hi") }).await?;
    while let Some(record) = records.next().await {
        record?;
    }
    Ok(())
}

async fn terminals(client: &Client, id: &SandboxId) -> Result<(), Error> {
    let terminal = client.open_terminal(id, &OpenTerminal::default()).await?.terminal_id;
    client.terminals(id).await?;
    client.terminal(id, &terminal).await?;
    client.close_terminal(id, &terminal).await.map(drop)
}

/// Attaches to a terminal until it shows something. A connection closed by the park or the delete is not an error.
async fn attach(client: &Client, id: &SandboxId) -> Result<(), Error> {
    let terminal = client.open_terminal(id, &OpenTerminal::default()).await?.terminal_id;
    let (mut events, mut keyboard) = client.attach_terminal(id, &terminal).await?;
    let _ = keyboard.type_in("echo hi\r").await;
    while let Some(Ok(event)) = events.next().await {
        if matches!(event, TerminalEvent::Output(_)) {
            break;
        }
    }
    client.close_terminal(id, &terminal).await.map(drop)
}

/// A request body, sent in pieces.
fn pieces() -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::iter(0..4).then(async |piece| {
        // The body takes a while, so that the park or the delete happens during it.
        tokio::time::sleep(PIECE).await;
        Ok(Bytes::from(format!("{piece}")))
    })
}

async fn stdin(client: &Client, id: &SandboxId) -> Result<(), Error> {
    let request = StartCommand { open_stdin: Some(true), ..script("cat") };
    let command = client.start(id, &request).await?.command_id;
    client.stream_stdin(id, &command, pieces(), true).await.map(drop)
}

async fn upload(client: &Client, id: &SandboxId) -> Result<(), Error> {
    client.put_file(id, "uploaded", upload_stream(pieces()), WriteOptions::default()).await.map(drop)
}

/// Visits a preview until `stop` is set. Returns the unexpected responses. A park ends the server, so that nothing
/// listens, and a delete ends the link.
async fn visit_continuously(url: &str, stop: &AtomicBool) -> Vec<String> {
    let mut faults = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let seen = visit(url).await;
        let is_fine = match seen.status {
            200 => seen.body == "a page",
            404 | 410 => true,
            503 => seen.body.contains("Nothing listens"),
            _ => false,
        };
        if !is_fine {
            faults.push(format!("preview: {seen:?}"));
        }
    }
    faults
}

async fn race(delete: bool) {
    let daemon = Arc::new(Daemon::start().await);
    let mut faults = Vec::new();
    for round in 0..ROUNDS {
        let id = sandbox_with_port(&daemon, &format!("chat:{round}")).await;
        serve(&daemon, &id, &node("res.end('a page')")).await;
        let url = link(&daemon, &id).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients: Vec<_> = (0..ASKERS)
            .map(|_| {
                let (daemon, id, stop) = (Arc::clone(&daemon), id.clone(), Arc::clone(&stop));
                tokio::spawn(async move { send_all_requests(&daemon, &id, &stop).await })
            })
            .collect();
        let reported = Arc::clone(&stop);
        clients.push(tokio::spawn(async move { visit_continuously(&url, &reported).await }));
        daemon.output(&id, "true").await;
        if delete {
            daemon.client.delete(&id).await.unwrap();
        } else {
            for _ in 0..3 {
                daemon.client.park(&id, true).await.unwrap();
                daemon.client.touch(&id, None).await.unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        for api in clients {
            faults.extend(api.await.unwrap());
        }
        daemon.client.delete(&id).await.unwrap();
    }
    assert!(faults.is_empty(), "{} wrong answers: {faults:#?}", faults.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_a_delete_report_that_the_sandbox_is_gone() {
    race(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_a_park_are_served_by_the_woken_sandbox() {
    race(false).await;
}
