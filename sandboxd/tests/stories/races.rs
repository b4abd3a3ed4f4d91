//! Requests of every kind that meet a delete or a park.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use sandbox_api::command::StartCommand;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use serde_json::json;

use crate::harness::{Daemon, script};
use crate::http::Asker;

/// Rounds of each race. Each asks for everything several times.
const ROUNDS: usize = 4;

/// Askers side by side.
const ASKERS: usize = 4;

/// What must not come out of a race.
fn wrong(what: &str, error: &Error) -> Option<String> {
    let code = error.code();
    let fine = matches!(code, Some(ErrorCode::NotFound | ErrorCode::WrongState));
    (!fine).then(|| format!("{what}: {code:?} {error}"))
}

/// Asks for everything until it is told to stop; what went wrong.
async fn ask_for_everything(daemon: &Daemon, id: &SandboxId, stop: &AtomicBool) -> Vec<String> {
    let (client, asker) = (&daemon.client, Asker::of(daemon));
    let mut faults = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut note = |what: &str, answer: Result<(), Error>| {
            faults.extend(answer.err().and_then(|error| wrong(what, &error)));
        };
        note("start", start_and_look(client, id).await);
        note("run", run(client, id).await);
        note("terminals", terminals(client, id).await);
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
            let answer = asker.get(&format!("/v1/sandboxes/{id}/{path}")).await;
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
            let answer = asker.post(&format!("/v1/sandboxes/{id}/{path}"), &body).await;
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

async fn race(delete: bool) {
    let daemon = Arc::new(Daemon::start().await);
    let mut faults = Vec::new();
    for round in 0..ROUNDS {
        let id = daemon.sandbox(&format!("chat:{round}")).await;
        let stop = Arc::new(AtomicBool::new(false));
        let askers: Vec<_> = (0..ASKERS)
            .map(|_| {
                let (daemon, id, stop) = (Arc::clone(&daemon), id.clone(), Arc::clone(&stop));
                tokio::spawn(async move { ask_for_everything(&daemon, &id, &stop).await })
            })
            .collect();
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
        for asker in askers {
            faults.extend(asker.await.unwrap());
        }
        daemon.client.delete(&id).await.unwrap();
    }
    assert!(faults.is_empty(), "{} wrong answers: {faults:#?}", faults.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_meet_a_delete_are_told_that_the_sandbox_is_gone() {
    race(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_meet_a_park_are_served_by_the_woken_sandbox() {
    race(false).await;
}
