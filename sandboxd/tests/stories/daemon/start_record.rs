//! A start does not try again what an earlier one has found to work, unless something has changed since.

use std::fs;

use serde_json::json;
use test_daemon::agent_program;

use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{Daemon, Home};
use crate::support::http::HttpClient;
use crate::support::metrics::Samples;

/// Calls of the start that fill the agent's volume, mount a disk, and start a sandbox.
const TRIES: [&str; 3] = ["create agent carrier", "create disk's probe", "start container"];

/// Number of calls of each kind that the daemon has made.
async fn tries(daemon: &Daemon) -> [f64; 3] {
    let samples = Samples::of(daemon).await;
    TRIES.map(|call| samples.sum("sandboxd_engine_call_seconds_count", &[&format!("call=\"{call}\"")]))
}

fn home() -> Home {
    Home::new().with_first_start()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_tries_nothing_again() {
    let first = Daemon::start_in(home()).await;
    assert_eq!(tries(&first).await, [1.0; 3]);
    let second = Daemon::start_in(first.stop().await).await;
    assert_eq!(tries(&second).await, [0.0; 3]);
    let sandbox = second.sandbox("chat:1").await;
    let device = second.output(&sandbox, "df --output=source . | tail -n 1").await;
    assert!(device.contains("/sandboxd-disks-"), "the workspace has no disk: {device}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_tries_again_with_another_agent() {
    let first = Daemon::start_in(home()).await;
    let home = first.stop().await;
    let copy = home.path().join("sandbox-agent");
    fs::copy(agent_program(), &copy).unwrap();
    let home = home.set("SANDBOXD_AGENT_PATH", &copy.to_string_lossy());
    let second = Daemon::start_in(home).await;
    assert_eq!(tries(&second).await, [1.0; 3]);
    let third = Daemon::start_in(second.stop().await).await;
    assert_eq!(tries(&third).await, [0.0; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_tries_again_after_a_sandbox_did_not_start() {
    let proxy = EngineProxy::start();
    let first =
        Daemon::start_in(home().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())).await;
    proxy.set("/start", Fault::Fail);
    let refused = HttpClient::of(&first).post("/v1/sandboxes", &json!({ "sessionKey": "chat:1" })).await;
    assert!(refused.status >= 500, "{}", refused.status);
    proxy.clear_faults();
    let second = Daemon::start_in(first.stop().await).await;
    assert_eq!(tries(&second).await, [1.0; 3]);
}
