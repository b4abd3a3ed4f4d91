//! Many conversations at once, while the daemon is killed: every result belongs to the conversation that asked.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::mcp_client::Mcp;
use super::stdio::Host;
use crate::support::harness::{DaemonProcess, Home, TOKEN, free_port};

const CONVERSATIONS: usize = 20;
const DURATION: Duration = Duration::from_secs(60);

/// Pause after a call that had no result.
const PAUSE: Duration = Duration::from_millis(200);

/// Time for one call. Hosts cut calls off after a minute.
const CALL: Duration = Duration::from_secs(60);

/// How a conversation reaches its sandbox.
enum Way {
    /// By the handle from `sandbox_open`.
    Handle { client: Mcp, handle: Option<String> },
    /// By a header, on a connection of its own or on one of a pool.
    Header(Mcp),
    /// By a process.
    Stdio { host: Box<Host>, id: u64 },
}

#[derive(Default)]
struct Counts {
    results: AtomicU64,
    /// Calls that were refused because all sandboxes were in use.
    refused: AtomicU64,
}

impl Way {
    async fn new(index: usize, home: &Home, port: u16, pool: &Mcp) -> Self {
        let own = Mcp::at(&format!("http://127.0.0.1:{port}"), TOKEN);
        match index % 4 {
            0 => Self::Handle { client: own, handle: None },
            1 => Self::Header(own.in_session(&format!("conversation {index}"))),
            2 => Self::Header(pool.in_session(&format!("conversation {index}"))),
            _ => {
                let mut host = Box::new(Host::start(home, port, &[]));
                host.initialize().await;
                Self::Stdio { host, id: 1 }
            }
        }
    }

    /// The result of a call. `None` if the daemon could not be reached, or was killed meanwhile.
    async fn call(&mut self, tool: &str, mut arguments: Value) -> Option<Value> {
        match self {
            Self::Handle { client, handle } => {
                if let Some(handle) = handle {
                    arguments["sandbox"] = handle.as_str().into();
                }
                client.try_call(tool, arguments).await
            }
            Self::Header(client) => client.try_call(tool, arguments).await,
            Self::Stdio { host, id } => {
                *id += 1;
                let params = json!({ "name": tool, "arguments": arguments });
                host.send(&json!({ "jsonrpc": "2.0", "id": *id, "method": "tools/call", "params": params }))
                    .await;
                Some(host.answer(*id).await["result"].clone())
            }
        }
    }

    /// Opens a sandbox if the conversation needs a handle and has none. Returns whether commands can run.
    async fn is_open(&mut self, counts: &Counts) -> bool {
        if !matches!(self, Self::Handle { handle: None, .. }) {
            return true;
        }
        let Some(opened) = self.call("sandbox_open", json!({})).await else { return false };
        let found = opened["structuredContent"]["sandbox"].as_str().map(str::to_owned);
        if let (Self::Handle { handle, .. }, Some(found)) = (&mut *self, &found) {
            *handle = Some(found.clone());
        } else {
            note_refusal(&opened, counts);
        }
        found.is_some()
    }
}

/// A refusal because all sandboxes are in use says when to try again. During a restart, other failures are possible too.
fn note_refusal(result: &Value, counts: &Counts) {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if text.contains("sandboxes are in use") {
        assert!(text.contains("retry after"), "{text}");
        counts.refused.fetch_add(1, Relaxed);
    }
}

/// Calls until `end`. Each result must have what this conversation wrote before.
async fn converse(mut way: Way, marker: String, end: Instant, counts: &'static Counts) -> u64 {
    let (mut results, mut number) = (0, 0_u64);
    while Instant::now() < end {
        number += 1;
        if !way.is_open(counts).await {
            sleep(PAUSE).await;
            continue;
        }
        // A sandbox that lost its place keeps its files, so the first marker is there forever.
        // The first one takes a while, so that all places are in use at once, also on a slow machine.
        let wait = if number == 1 { "sleep 3; " } else { "" };
        let command = format!("{wait}[ -e marker ] || echo {marker} >marker; cat marker; echo {number}");
        let called = timeout(CALL, way.call("bash", json!({ "command": command }))).await;
        let result = called.unwrap_or_else(|_| panic!("{marker}: no answer in {CALL:?}"));
        let ran = result.as_ref().map(|result| &result["structuredContent"]);
        match (&result, ran.and_then(|ran| ran["stdout"].as_str())) {
            (_, Some(stdout)) if ran.is_some_and(|ran| ran["reason"] == "exited") => {
                assert_eq!(stdout, format!("{marker}\n{number}\n"));
                results += 1;
            }
            (Some(result), None) => {
                note_refusal(result, counts);
                sleep(PAUSE).await;
            }
            // Lost with the daemon.
            _ => sleep(PAUSE).await,
        }
    }
    counts.results.fetch_add(results, Relaxed);
    results
}

async fn converse_at_once(places: &str) -> &'static Counts {
    let counts: &'static Counts = Box::leak(Box::default());
    let (home, port) = (Home::new().set("SANDBOXD_MAX_CONCURRENT", places), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let pool = Mcp::at(&format!("http://127.0.0.1:{port}"), TOKEN);
    let end = Instant::now() + DURATION;
    let mut conversations = JoinSet::new();
    for index in 0..CONVERSATIONS {
        let way = Way::new(index, &home, port, &pool).await;
        conversations.spawn(converse(way, format!("marker-{places}-{index}"), end, counts));
    }
    sleep(DURATION / 2).await;
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    while let Some(ended) = conversations.join_next().await {
        assert!(ended.unwrap() > 0, "a conversation had no result");
    }
    daemon.kill().await;
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_conversations_with_room_for_all_never_mix() {
    let counts = converse_at_once("24").await;
    assert!(counts.results.load(Relaxed) > 200, "{} results", counts.results.load(Relaxed));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_conversations_with_room_for_eight_never_mix() {
    let counts = converse_at_once("8").await;
    println!(
        "conversations | refused {}, results {}",
        counts.refused.load(Relaxed),
        counts.results.load(Relaxed)
    );
    assert!(counts.refused.load(Relaxed) > 0, "no call was refused");
    assert!(counts.results.load(Relaxed) > 40, "{} results", counts.results.load(Relaxed));
}
