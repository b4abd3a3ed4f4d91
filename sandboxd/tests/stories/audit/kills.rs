//! A daemon that is killed again and again while it records acts.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use sandbox_api::{REQUEST_ID_HEADER, SandboxId, TOKEN_HEADER};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{checked, dir_of};
use crate::support::harness::{Daemon, Home, TOKEN, free_port, until};

const KILLS: u64 = 200;

/// Clients that send acts at the same time.
const CLIENTS: u64 = 8;

/// Answers after which the daemon is killed, at most.
const MAX_ANSWERS: u64 = 25;

/// The acts of one daemon's life.
#[derive(Default)]
struct Load {
    /// Ids of the requests that were answered.
    answered: Mutex<Vec<String>>,
    news: Notify,
    next: AtomicU64,
}

impl Load {
    /// Sends acts until the daemon does not answer any more.
    async fn send(&self, base: &str, run: u64, sandbox: &SandboxId) {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let (method, path, body) = match number % 4 {
                0 => (Method::POST, "/v1/projects".into(), json!({ "name": format!("p{run}-{number}") })),
                1 => (Method::POST, "/v1/projects/default/tokens".into(), json!({ "ttlMs": 1000 })),
                2 => (Method::DELETE, "/v1/sandboxes/sbx_0000000000000000".into(), json!({})),
                _ => (Method::POST, format!("/v1/sandboxes/{sandbox}/commands"), json!({ "script": ":" })),
            };
            let request = http.request(method, format!("{base}{path}")).header(TOKEN_HEADER, TOKEN);
            let Ok(answer) = request.json(&body).send().await else { return };
            let id = answer.headers()[REQUEST_ID_HEADER].to_str().unwrap().to_owned();
            if answer.bytes().await.is_err() {
                return;
            }
            self.answered.lock().unwrap().push(id);
            self.news.notify_one();
        }
    }

    async fn until_answered(&self, count: u64) {
        while (self.answered.lock().unwrap().len() as u64) < count {
            self.news.notified().await;
        }
    }
}

/// Ids of the requests whose outcomes are in the record after `from`, and where it ends.
fn outcomes(file: &Path, from: u64) -> (HashSet<String>, u64) {
    let mut file = File::open(file).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.contains(r#""outcome":"#));
    let ids =
        lines.filter_map(|line| Some(line.split_once(r#""requestId":""#)?.1.split('"').next()?.to_owned()));
    (ids.collect(), from + text.len() as u64)
}

/// Starts a daemon, kills it in the middle of its work, and returns the requests that it has answered.
async fn one_life(home: &Home, run: u64, answers: u64, sandbox: &SandboxId) -> Vec<String> {
    let port = free_port();
    let base = format!("http://127.0.0.1:{port}");
    let mut child = home.program(&["serve"]).env("SANDBOXD_PORT", port.to_string()).spawn().unwrap();
    // In one life of ten, commands run. Before the daemon is ready, they are refused.
    let wanted = if run.is_multiple_of(10) { "ready" } else { "health" };
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    until("the daemon answers", || async {
        let answer = http.get(format!("{base}/v1/{wanted}")).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    })
    .await;
    let load = Arc::new(Load::default());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (load, base, sandbox) = (Arc::clone(&load), base.clone(), sandbox.clone());
        clients.spawn(async move { load.send(&base, run, &sandbox).await });
    }
    load.until_answered(answers).await;
    child.kill().await.unwrap();
    clients.join_all().await;
    std::mem::take(&mut *load.answered.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_survives_200_kills_and_has_every_answered_act() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let home = daemon.stop().await;
    let file = dir_of(&home).join("audit-00000001.ndjson");
    let (mut from, mut acts) = (0, 0);
    // A simple generator (Numerical Recipes). It makes failures repeatable, as far as the moment of a kill is.
    let mut random: u64 = 1;
    for run in 0..KILLS {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % (1 << 32);
        let answered = one_life(&home, run, 1 + random % MAX_ANSWERS, &sandbox).await;
        let report = checked(&home).await;
        assert!(report.is_intact(), "kill {run}: {report:?}");
        let (recorded, end) = outcomes(&file, from);
        let missing: Vec<_> = answered.iter().filter(|id| !recorded.contains(*id)).collect();
        assert!(missing.is_empty(), "kill {run}: answered, but not recorded: {missing:?}");
        // The next life may remove an unfinished line.
        from = end - report.unfinished_bytes;
        acts += answered.len();
    }
    assert!(acts as u64 > KILLS, "{acts}");
    // The last daemon closes off what the kills have left.
    let home = Daemon::start_in(home).await.stop().await;
    let report = checked(&home).await;
    assert!(report.is_intact() && report.unfinished_bytes == 0, "{report:?}");
}
